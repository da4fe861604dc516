"""One HTTP request with a limit for everything: names, connections, TLS, proxies, redirects, and the answer's time and
size. It loads a fraction of what other clients load, because the whole init phase may take the time of ten starts of
Python."""

from __future__ import annotations

import os

from kedge.dropin.net import http_addresses, http_connections, http_proxies
from kedge.dropin.net.http_addresses import Address
from kedge.dropin.net.http_connections import USUAL, Tls
from kedge.dropin.net.http_wire import Limits, Malformed, TimeLeft, Wire
from kedge.light.types import Mapping, NamedTuple

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CREDENTIALS = frozenset({"authorization", "cookie"})
USUAL_LIMITS = Limits()


class HttpFailed(Exception):
    """There is no answer, or none that can be used. The message names the server and the reason."""


class Response(NamedTuple):
    """An answer, whatever its status. Names of `headers` are in lower case; `reason` is printable."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    address: Address

    def values(self, name: str) -> list[str]:
        """The values of all headers of a name, which is in lower case."""
        return [value for header, value in self.headers if header == name]


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    tls: Tls = USUAL,
    limits: Limits = USUAL_LIMITS,
    redirects: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Response:
    """The answer to one request without a body. `limits` are for all of it, with up to `redirects` redirects, to which
    other servers get no credentials. `environment` has the variables of proxies, by default this process's.

    HttpFailed if there is no complete answer."""
    time_left = TimeLeft(limits)
    address = _parsed(url)
    sent = {"User-Agent": "kedge", "Accept-Encoding": "identity", **(headers or {})}
    for followed in range(redirects + 1):
        response = _answered(method, address, sent, tls, limits, time_left, environment)
        if response.status not in _REDIRECTS or followed == redirects:
            break
        address = _redirected(response)
        if not address.same_server(response.address):
            sent = {name: value for name, value in sent.items() if name.lower() not in _CREDENTIALS}
    return response


def _parsed(url: str) -> Address:
    try:
        return http_addresses.parse(url)
    except ValueError as error:
        raise HttpFailed(f"{printable(without_secrets(url))!r} is not a valid address: {error}") from None


def _redirected(response: Response) -> Address:
    location = next(iter(response.values("location")), "")
    try:
        return http_addresses.redirected(response.address, location)
    except ValueError as error:
        message = f"{response.address.shown} redirects to an address that cannot be followed: {error}"
        raise HttpFailed(message) from None


def _answered(
    method: str,
    address: Address,
    headers: Mapping[str, str],
    tls: Tls,
    limits: Limits,
    time_left: TimeLeft,
    environment: Mapping[str, str] | None,
) -> Response:
    """One request to one server, and its errors in words."""
    try:
        proxy = http_proxies.proxy_for(address, os.environ if environment is None else environment)
        text = _request_text(method, address, headers, proxy)
        connection = http_connections.connect(address, proxy, tls, time_left)
        try:
            wire = Wire(connection, time_left)
            wire.send(text)
            head = wire.head()
            body = wire.body(method, head, limits.body_bytes)
        finally:
            connection.close()
    except Malformed as error:
        raise HttpFailed(f"{address.shown} gives no valid answer: {printable(str(error))}") from None
    except OSError as error:
        raise HttpFailed(f"{address.shown} cannot be reached: {_reason(error, time_left)}") from None
    except ValueError as error:  # headers or variables of the caller
        raise HttpFailed(f"{address.shown} cannot be asked: {error}") from None
    return Response(head.status, printable(head.reason), head.headers, body, address)


def _request_text(method: str, address: Address, headers: Mapping[str, str], proxy: Address | None) -> bytes:
    target, sent = address.target, {"Host": address.authority, **headers, "Connection": "close"}
    if proxy and address.scheme == "http":
        target = f"http://{address.authority}{address.target}"
        sent |= http_connections.proxy_credentials(proxy)
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    for name, value in sent.items():
        if not name.isascii() or any(not " " <= character <= "\xff" for character in value):
            raise ValueError(f"the value of the header {printable(name)} has characters that are not allowed")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _reason(error: OSError, time_left: TimeLeft) -> str:
    """Why a server cannot be reached. Errors of ssl are known by their fields, so that ssl is not loaded for them."""
    if verification := getattr(error, "verify_message", None):
        return f"its certificate is not trusted: {verification}"
    if library := getattr(error, "library", None):
        return f"TLS fails: {getattr(error, 'reason', None) or library}"
    kind = type(error).__name__
    if kind == "gaierror":
        return f"its name cannot be resolved: {error.strerror or error}"
    if isinstance(error, TimeoutError) and error.errno is None:
        return time_left.explain()
    return error.strerror or str(error) or kind


def without_secrets(url: str) -> str:
    """An address, which need not be valid, without user and query."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.partition('?')[0].rpartition('@')[2]}" if separator else url.partition("?")[0]


def printable(text: str) -> str:
    """Foreign text for a message: shortened, and with escapes for unprintable characters."""
    cut = text if len(text) <= 300 else f"{text[:300]}…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
