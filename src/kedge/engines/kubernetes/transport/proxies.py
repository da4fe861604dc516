"""The proxy on the way to a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from kedge.engines.kubernetes.transport.endpoint import NotConfigured, ServerEndpoint

_THIS_MACHINE = ("localhost", "::1")


def proxy_of(endpoint: ServerEndpoint, environment: Mapping[str, str] = os.environ) -> SplitResult | None:
    """The address of the proxy for this server; None: there is none. NotConfigured: it is of a kind not known here."""
    url = endpoint.url
    named = endpoint.proxy
    if not named and not _excepted(url.hostname or "", _variable(environment, "no_proxy")):
        named = _variable(environment, f"{url.scheme}_proxy") or _variable(environment, "all_proxy")
    if not named:
        return None
    found = urlsplit(named if "://" in named else f"http://{named}")
    if found.scheme != "http" or not found.hostname:
        raise NotConfigured(f"the proxy {named} for {endpoint.server} is none that kedge can use: only http:// ones")
    return found


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""


def _excepted(host: str, names: str) -> bool:
    if host in _THIS_MACHINE or host.startswith("127."):
        return True
    for name in filter(None, (part.strip() for part in names.split(","))):
        bare = name.lstrip("*").lstrip(".")
        if name == "*" or host == bare or (bare and host.endswith(f".{bare}")) or _in_network(host, name):
            return True
    return False


def _in_network(host: str, network: str) -> bool:
    if "/" not in network:
        return False
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
