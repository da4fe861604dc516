"""Connections to HTTP servers: name resolution, proxies and TLS, all within the time that is left."""

from __future__ import annotations

import _socket
import binascii

from kedge.deadlines import within
from kedge.dropin.net.http_addresses import Address
from kedge.dropin.net.http_wire import Malformed, TimeLeft, Wire
from kedge.light.tls_clients import WeakSocket
from kedge.light.types import Any, NamedTuple


class Tls(NamedTuple):
    """How to recognise a server, and how to be recognised. `ca` and `client` are PEM texts: certificates to trust
    instead of the usual ones, and the client's own certificate with its key. `name` replaces the host's name in the
    check of the certificate."""

    verify: bool = True
    ca: bytes | None = None
    client: bytes | None = None
    name: str | None = None


USUAL = Tls()


def connect(address: Address, proxy: Address | None, tls: Tls, time_left: TimeLeft) -> Any:
    """A connected socket, with TLS for https. OSError (TimeoutError, gaierror, SSLError), Malformed."""
    raw = _first_that_accepts(proxy or address, time_left)
    try:
        if proxy and address.scheme == "https":
            _open_tunnel(raw, address, proxy, time_left)
        if address.scheme == "http":
            return raw
        from kedge.dropin.net import http_tls

        raw.settimeout(time_left.seconds())
        return http_tls.secured(raw, tls, address.host)
    except BaseException:
        raw.close()
        raise


def proxy_credentials(proxy: Address) -> dict[str, str]:
    """The header with the proxy's user and password, if its address has them."""
    if proxy.user is None:
        return {}
    encoded = binascii.b2a_base64(_unescaped(proxy.user), newline=False).decode()
    return {"Proxy-Authorization": f"Basic {encoded}"}


def _first_that_accepts(address: Address, time_left: TimeLeft) -> _socket.socket:
    """Connect to the first of a host's addresses that accepts. Each gets an equal share of the time that is left."""
    candidates = _resolved(address, time_left.seconds())
    for number, (family, place) in enumerate(candidates):
        raw = WeakSocket(family, _socket.SOCK_STREAM)
        try:
            raw.settimeout(time_left.seconds() / (len(candidates) - number))
            raw.connect(place)
        except OSError:
            raw.close()
            if number + 1 == len(candidates):
                raise
        else:
            return raw
    raise _socket.gaierror(_socket.EAI_NONAME, "the name has no address")


def _resolved(address: Address, seconds: float) -> list[tuple[int, Any]]:
    """The addresses of a host. The system's resolver has no time limit of its own; numbers need none."""
    kind = _socket.SOCK_STREAM
    host = address.host.encode()  # for a text, getaddrinfo loads the codec idna, which takes as long as Python's start
    try:
        found = _socket.getaddrinfo(host, address.port, 0, kind, 0, _socket.AI_NUMERICHOST)
    except _socket.gaierror:
        try:
            found = within(seconds, lambda: _socket.getaddrinfo(host, address.port, 0, kind))
        except TimeoutError:
            raise _socket.gaierror(_socket.EAI_AGAIN, f"no answer within {seconds:.0f} seconds") from None
    return list(dict.fromkeys((each[0], each[4]) for each in found))


def _open_tunnel(raw: _socket.socket, address: Address, proxy: Address, time_left: TimeLeft) -> None:
    host = f"[{address.host}]" if ":" in address.host else address.host
    headers = {"Host": f"{host}:{address.port}", **proxy_credentials(proxy)}
    lines = [f"CONNECT {host}:{address.port} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    wire = Wire(raw, time_left)
    wire.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    head = wire.head()
    if not 200 <= head.status < 300 or wire.has_more:
        raise Malformed(f"the proxy {proxy.authority} answers {head.status} {head.reason}".rstrip())


def _unescaped(text: str) -> bytes:
    """The bytes of a text with percent escapes."""
    first, *others = text.encode().split(b"%")
    parts = [first]
    for other in others:
        try:
            parts.append(bytes.fromhex(other[:2].decode()) + other[2:])
        except ValueError:
            parts.append(b"%" + other)
    return b"".join(parts)
