"""HTTP GET with one time limit for everything: proxies, redirects, name resolution and TLS."""

from __future__ import annotations

import http.client
import io
import socket
import urllib.request
from collections.abc import Mapping
from functools import partial
from http.client import HTTPResponse
from typing import Any

from kedge import certificate_authorities
from kedge.deadlines import within
from kedge.runtime.actions import addresses
from kedge.runtime.actions.addresses import Target
from kedge.runtime.actions.base import ActionFailed
from kedge.runtime.actions.http_timeouts import Pace

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 10


def get(target: Target, headers: Mapping[str, str], first_only: Mapping[str, str], pace: Pace) -> HTTPResponse:
    """The response to GET, whatever its status, after following redirects. The headers `first_only` (credentials) are
    not sent to the targets of redirects.

    ActionFailed for a redirect that cannot be followed or a bad proxy. Exceptions of http.client and sockets pass."""
    opener = _opener(pace)
    url, sent = target.url, {**headers, **first_only}
    for _ in range(_MAX_REDIRECTS + 1):
        request = urllib.request.Request(url, headers=sent)  # noqa: S310  (only http and https have handlers)
        response: HTTPResponse = opener.open(request, timeout=pace.left_sec())
        if response.status not in _REDIRECTS:
            pace.body()
            return response
        with response:
            location = response.headers["Location"] or ""
        url, sent = addresses.redirected(url, location), dict(headers)
    message = f"{addresses.shown(target.url)} leads through more than {_MAX_REDIRECTS} redirects"
    raise ActionFailed(message, "data_file_missing")


def _opener(pace: Pace) -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (_Proxies(), _PacedHttp(pace), _PacedHttps(pace), urllib.request.UnknownHandler()):
        opener.add_handler(handler)
    return opener


class _Proxies(urllib.request.ProxyHandler):
    """Checks the addresses in http_proxy and similar variables."""

    def proxy_open(self, req: urllib.request.Request, proxy: str, type: str) -> Any:
        try:
            addresses.parse(proxy if "://" in proxy else f"http://{proxy}")
            return super().proxy_open(req, proxy, type)
        except (ActionFailed, ValueError) as error:
            raise ActionFailed(f"the environment variable {type}_proxy is not valid: {error}", "bad_config") from error


class _PacedHttp(urllib.request.HTTPHandler):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        made: Any = partial(_PacedConnection, pace=self._pace)
        return self.do_open(made, req)


class _PacedHttps(urllib.request.HTTPSHandler):
    """Loads the certificate authorities at the first request."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        made: Any = partial(_PacedSecureConnection, pace=self._pace, context=certificate_authorities.context())
        return self.do_open(made, req)


class _PacedConnection(http.client.HTTPConnection):
    def __init__(self, host: str, *, pace: Pace, **options: Any) -> None:
        super().__init__(host, **options)
        _apply(self, pace)


class _PacedSecureConnection(http.client.HTTPSConnection):
    def __init__(self, host: str, *, pace: Pace, **options: Any) -> None:
        super().__init__(host, **options)
        _apply(self, pace)


def _apply(connection: Any, pace: Pace) -> None:
    """Apply the time limits of `pace` to all steps of a connection."""
    connection._create_connection = partial(_connect, pace)
    connection.response_class = partial(_PacedResponse, pace)


class _PacedResponse(HTTPResponse):
    def __init__(self, pace: Pace, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_PacedSocket(self.fp.detach(), sock, pace))

    def _read_next_chunk_size(self) -> int:
        size = int(super()._read_next_chunk_size())  # type: ignore[misc]
        if size < 0:
            raise ValueError("a chunk has a negative size")  # http.client would take it for the end of the response
        return size


class _PacedSocket(io.RawIOBase):
    """Reads a socket within the time limits. `file` keeps the socket open while it is read."""

    def __init__(self, file: io.RawIOBase, sock: socket.socket, pace: Pace) -> None:
        self._file, self._socket, self._pace = file, sock, pace

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(self._pace.left_sec())
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _connect(pace: Pace, address: tuple[str, int], *_options: Any) -> socket.socket:
    """Connect to the first of a host's addresses that accepts. Each gets an equal share of the time that is left."""
    candidates = _addresses(*address, pace.left_sec())
    for number, each in enumerate(candidates):
        try:
            connected = socket.create_connection(each, pace.left_sec() / (len(candidates) - number))
        except OSError:
            if number + 1 == len(candidates):
                raise
            continue
        connected.settimeout(pace.left_sec())  # for the TLS handshake
        return connected
    raise socket.gaierror(socket.EAI_NONAME, "the name has no address")


def _addresses(host: str, port: int, seconds: float) -> list[tuple[str, int]]:
    """Resolve a host name. The system's resolver has no time limit of its own."""
    try:
        found = within(seconds, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except TimeoutError:
        raise socket.gaierror(socket.EAI_AGAIN, f"the name is not resolved within {seconds:.0f} seconds") from None
    return list(dict.fromkeys((str(each[4][0]), int(each[4][1])) for each in found))
