"""HTTP requests to the API server, each with a deadline: httpx, with its errors as ours."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

import httpx

from kedge.engines.kubernetes.transport import tls
from kedge.engines.kubernetes.transport.api_errors import ApiError, unreachable
from kedge.engines.kubernetes.transport.endpoint import FixedProof, NotConfigured, ServerEndpoint

CONNECT_SEC = 10.0
# As many as a driver has calls at once; each call looks at all of them. Balancers on the way forget quiet ones after a
# minute.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=25, keepalive_expiry=50.0)
# A peer that is gone without a word is noticed after about 15 + 4 * 5 seconds.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPALIVE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class ApiAnswer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    retry_after: str = ""


class NotSent(ApiError):
    """The server was not connected to: nothing of the request has reached it."""


class ConnectionPool:
    """Connections to one server, for all threads."""

    def __init__(self, endpoint: ServerEndpoint) -> None:
        self.endpoint = endpoint
        self._url = endpoint.url
        self._client: httpx.Client | None = None
        self._old: list[httpx.Client] = []
        self._lock = threading.Lock()

    def call(self, method: str, path: str, body: bytes | None, headers: dict[str, str], deadline: float) -> ApiAnswer:
        """One request and its whole answer. ApiError: there is none until `deadline`, by time.monotonic()."""
        with self._as_api_errors():
            response = self._send(method, path, body, headers, deadline)
            with closing(response):
                parts = []
                for part in response.iter_bytes():
                    parts.append(part)
                    _left(deadline)
        return ApiAnswer(response.status_code, b"".join(parts), response.headers.get("Retry-After", ""))

    def stream(self, path: str, headers: dict[str, str], deadline: float, quiet_sec: float) -> httpx.Response:
        """A request whose answer goes on: it begins until `deadline`, and then is never quiet for longer than this. The
        caller closes it. ApiError; httpx errors while it is read."""
        with self._as_api_errors():
            response = self._send("GET", path, None, headers, deadline)
        response.request.extensions["timeout"]["read"] = quiet_sec  # which is what the body is read with
        if sock := socket_of(response):
            stay_alive(sock)
        return response

    def renew(self) -> None:
        """Forget connections and the certificate that they were made with: who asks has a new proof."""
        with self._lock:
            if self._client and not isinstance(self.endpoint.proof, FixedProof):
                self._old.append(self._client)  # other threads may use it now
                self._client = None

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            clients = [*self._old, *filter(None, [self._client])]
            self._old, self._client = [], None
        for client in clients:
            client.close()

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], deadline: float
    ) -> httpx.Response:
        client, left = self._made(), _left(deadline)
        name = {"sni_hostname": self.endpoint.tls_name} if self.endpoint.tls_name else {}
        request = client.build_request(
            method, self._url.geturl().rstrip("/") + path, content=body, headers=headers, extensions=name,
            timeout=httpx.Timeout(left, connect=min(left, CONNECT_SEC)),
        )  # fmt: skip
        return client.send(request, stream=True)

    def _made(self) -> httpx.Client:
        """The client, with proxies of the environment unless the kubeconfig names one. NotConfigured."""
        with self._lock:
            if self._client is None:
                verify = tls.context(self.endpoint) if self._url.scheme == "https" else False
                try:
                    self._client = httpx.Client(verify=verify, proxy=self.endpoint.proxy, limits=_LIMITS)
                except (ValueError, ImportError) as error:  # of a kind that it does not know
                    raise NotConfigured(f"the proxy for {self.endpoint.server}: {error}") from None
            return self._client

    @contextmanager
    def _as_api_errors(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
            why = self.broken(error)
            raise NotSent(why.status, why.reason, why.message) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise self.broken(error) from None

    def broken(self, error: BaseException) -> ApiError:
        """The error of a connection, in words."""
        return unreachable(self.endpoint.server, _why(error))


def socket_of(response: httpx.Response) -> socket.socket | None:
    """The socket that an answer comes from."""
    found = response.extensions["network_stream"].get_extra_info("socket")
    return found if isinstance(found, socket.socket) else None


def stay_alive(sock: socket.socket) -> None:
    """Let the kernel notice that the peer is gone."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if option := getattr(socket, name, None):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _why(error: BaseException) -> str:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "its name is not known here"
        if isinstance(cause, ssl.SSLCertVerificationError):
            told = cause.verify_message
            return f"its certificate is not trusted: {told}; see certificate-authority in the kubeconfig file"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there"
        if isinstance(cause, TimeoutError | httpx.TimeoutException):
            return "no answer in time"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    if isinstance(error, httpx.ProxyError):
        return f"the proxy on the way says: {error}"
    return str(error) or type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
