"""Which proxy a request takes, by the variables http_proxy, https_proxy, all_proxy and no_proxy."""

from __future__ import annotations

import _socket

from kedge.dropin.net import http_addresses
from kedge.dropin.net.http_addresses import Address
from kedge.light.types import Mapping


def proxy_for(address: Address, environment: Mapping[str, str]) -> Address | None:
    """The proxy for an address, None without. ValueError names the variable whose value is not a proxy's address."""
    for name in (f"{address.scheme}_proxy", "all_proxy"):
        if value := _variable(name, environment):
            break
    else:
        return None
    if _is_direct(address, _variable("no_proxy", environment)):
        return None
    try:
        proxy = http_addresses.parse(value if "://" in value else f"http://{value}")
        if proxy.scheme != "http":
            raise ValueError("only proxies with an address http://... are supported")
    except ValueError as error:
        raise ValueError(f"the environment variable {name} is not valid: {error}") from None
    return proxy


def _variable(name: str, environment: Mapping[str, str]) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _is_direct(address: Address, exceptions: str) -> bool:
    """Whether the request goes to the host itself: loopback always does, as with Go's programs."""
    number = _number(address.host)
    if address.host == "localhost" or (number and _within(number, "127.0.0.0/8")) or address.host == "::1":
        return True
    return any(_excepts(item, address, number) for item in exceptions.lower().replace(",", " ").split())


def _excepts(item: str, address: Address, number: bytes | None) -> bool:
    """Whether an item of no_proxy means the host: `*`, a name, a domain, an address or a network, also with a port."""
    if item == "*":
        return True
    if number and "/" in item:
        return _within(number, item)
    name, colon, port = item.rpartition(":")
    if colon and port.isdigit() and ":" not in name.strip("[]").replace("::", ""):
        if port != str(address.port):
            return False
        item = name
    if number:
        return _number(item.strip("[]")) == number
    domain = item.removeprefix("*").removeprefix(".").rstrip(".")
    host = address.host.rstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _within(number: bytes, network: str) -> bool:
    base, _, length = network.partition("/")
    start = _number(base)
    if start is None or len(start) != len(number) or not length.isdigit():
        return False
    shift = max(0, len(number) * 8 - int(length))
    return int.from_bytes(start, "big") >> shift == int.from_bytes(number, "big") >> shift


def _number(host: str) -> bytes | None:
    """The bytes of a numeric address, None for a name."""
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try:
            return _socket.inet_pton(family, host)
        except OSError:
            continue
    return None
