"""HTTP requests to the API server, each with a deadline, over connections that are kept for the next ones."""

from __future__ import annotations

import base64
import http.client
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import NamedTuple

from kedge.engines.kubernetes.transport import proxies, tls
from kedge.engines.kubernetes.transport.api_errors import ApiError, unreachable
from kedge.engines.kubernetes.transport.endpoint import ServerEndpoint

CONNECT_SEC = 10.0
_MOST_IDLE = 4  # connections that are kept
_IDLE_SEC = 50.0  # balancers on the way forget quiet connections after a minute
_CHUNK = 1 << 16
# A peer that is gone without a word is noticed after about 15 + 4 * 5 seconds.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPALIVE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class ApiAnswer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    retry_after: str = ""


class NotSent(ApiError):
    """The server was not connected to: nothing of the request has reached it."""


class _TlsConnection(http.client.HTTPConnection):
    """Like HTTPSConnection, with a name of its own to check."""

    default_port = 443

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=CONNECT_SEC)
        self._tls, self._tls_name = context, name

    def connect(self) -> None:
        super().connect()
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._tls_name)


class ConnectionPool:
    """Connections to one server, for all threads."""

    def __init__(self, endpoint: ServerEndpoint) -> None:
        self.endpoint = endpoint
        self._url, self._proxy = endpoint.url, proxies.proxy_of(endpoint)
        self._context: ssl.SSLContext | None = None
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()

    def path(self, path: str) -> str:
        """The path of a request on this server, which may have one of its own in front."""
        return self._url.path.rstrip("/") + path

    def call(self, method: str, path: str, body: bytes | None, headers: dict[str, str], deadline: float) -> ApiAnswer:
        """One request and its whole answer. ApiError: there is none until `deadline`, by time.monotonic()."""
        connection = self._kept() or self.connected(deadline)
        try:
            answer, keep = self._answer(connection, method, path, body, headers, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise self.broken(error, deadline) from None
        except BaseException:
            connection.close()
            raise
        if keep:
            self._keep(connection)
        else:
            connection.close()
        return answer

    def _answer(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None,
        headers: dict[str, str], deadline: float,
    ) -> tuple[ApiAnswer, bool]:  # fmt: skip
        _limit(connection.sock, deadline)
        connection.request(method, self.path(path), body, headers)
        response = connection.getresponse()
        parts = []
        while True:
            _limit(connection.sock or response, deadline)
            part = response.read1(_CHUNK)
            if not part:
                break
            parts.append(part)
        if response.length:  # of a length that was announced, this is missing
            raise http.client.IncompleteRead(b"", response.length)
        response.close()  # else the connection takes no other request
        answer = ApiAnswer(response.status, b"".join(parts), response.getheader("Retry-After") or "")
        return answer, not response.will_close

    def connected(self, deadline: float) -> http.client.HTTPConnection:
        """A new connection. NotSent."""
        made = self._made()
        made.timeout = max(0.1, min(CONNECT_SEC, deadline - time.monotonic()))
        try:
            made.connect()
        except (OSError, http.client.HTTPException, ValueError) as error:
            made.close()
            why = self.broken(error, deadline)
            raise NotSent(why.status, why.reason, why.message) from None
        stay_alive(made.sock)
        return made

    def _made(self) -> http.client.HTTPConnection:
        url, proxy = self._url, self._proxy
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        via, via_port = (proxy.hostname or "", proxy.port or 80) if proxy else (host, port)
        if url.scheme == "https":
            made: http.client.HTTPConnection = _TlsConnection(
                via, via_port, self._tls(), self.endpoint.tls_name or host
            )
        else:
            made = http.client.HTTPConnection(via, via_port, timeout=CONNECT_SEC)
        if proxy:
            user = f"{proxy.username or ''}:{proxy.password or ''}".encode() if proxy.username else b""
            own = {"Proxy-Authorization": f"Basic {base64.b64encode(user).decode()}"} if user else {}
            made.set_tunnel(host, port, own)
        return made

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                self._context = tls.context(self.endpoint)
            return self._context

    def renew(self) -> None:
        """Forget connections and the certificate that they were made with: who asks has a new proof."""
        with self._lock:
            self._context = None
        self.close()

    def _kept(self) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                since, connection = self._idle.pop()
            if time.monotonic() - since < _IDLE_SEC and not _has_ended(connection.sock):
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _MOST_IDLE:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def close(self) -> None:
        """Close the connections that no request uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def broken(self, error: Exception, deadline: float) -> ApiError:
        """The error of a connection, in words."""
        return unreachable(self.endpoint.server, self._why(error, deadline))

    def _why(self, error: Exception, deadline: float) -> str:
        through = f" (through the proxy {self._proxy.netloc.rpartition('@')[2]})" if self._proxy else ""
        if isinstance(error, socket.gaierror):
            return f"its name is not known here{through}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted: {error.verify_message}; see certificate-authority in the kubeconfig "
                f"file{through}"
            )
        if isinstance(error, TimeoutError):
            return f"no answer in time{through}"
        if isinstance(error, ConnectionRefusedError):
            return f"nothing listens there{through}"
        if isinstance(error, http.client.RemoteDisconnected):
            return f"it closed the connection{through}"
        return f"{getattr(error, 'strerror', None) or error or type(error).__name__}{through}"


def stay_alive(sock: socket.socket) -> None:
    """Let the kernel notice that the peer is gone."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _KEEPALIVE:
            if option := getattr(socket, name, None):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _limit(sock: object, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if isinstance(sock, socket.socket):
        sock.settimeout(left)


def _has_ended(sock: socket.socket | None) -> bool:
    """Whether the server has closed a connection that nobody uses: only then is there something to read."""
    if sock is None:
        return True
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return bool(poller.poll(0))
