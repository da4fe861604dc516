"""One try to connect to the controller at one address, without waiting."""

from __future__ import annotations

import _socket
import _ssl
import errno
import os

from kedge.light import tls_clients
from kedge.light.types import Any
from kedge.link.stream import READ, WRITE, LinkStream

_CONNECT_SEC = 5.0
_HANDSHAKE_SEC = 10.0


class Dial:
    """Connects to a numeric address. OSError: it is not one, or there is no way to it. `context` is a TLS context that
    trusts the controller only."""

    def __init__(self, context: Any, address: str, port: int, now: float) -> None:
        self.address, self.port, self._context = address, port, context
        family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
        # As bytes: for a text, Python would load the encoding of host names, a quarter of what the agent loads.
        numeric = address.encode(errors="replace")
        found = _socket.getaddrinfo(numeric, port, family, _socket.SOCK_STREAM, 0, _socket.AI_NUMERICHOST)
        self._raw = tls_clients.WeakSocket(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._raw.setblocking(False)
        self.fd = self._raw.fileno()
        self.deadline = now + _CONNECT_SEC
        self._stream: LinkStream | None = None
        number = self._raw.connect_ex(found[0][4])
        if number not in (0, errno.EINPROGRESS):
            self.close()
            raise OSError(number, os.strerror(number))

    @property
    def events(self) -> int:
        """What to wait for."""
        return self._stream.events if self._stream else READ | WRITE

    def work(self, now: float) -> LinkStream | None:
        """Go on; the stream when the controller has shown its certificate. OSError: it failed."""
        if self._stream is None:
            number = self._raw.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
            if number:
                raise OSError(number, os.strerror(number))
            if not _is_connected(self._raw):
                return None
            self.deadline = now + _HANDSHAKE_SEC
            self._raw.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            self._stream = LinkStream(self._raw, tls_clients.non_blocking(self._context, self._raw))
        self._stream.work()
        return self._stream if self._stream.secure else None

    def close(self) -> None:
        """Give up."""
        self._raw.close()


def pinned(certificate: str) -> Any:
    """A TLS context for `Dial`, which accepts this certificate (PEM) only."""
    context = tls_clients.client_context()
    tls_clients.trust_only(context, certificate)
    return context


def _is_connected(raw: _socket.socket) -> bool:
    try:
        raw.getpeername()
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise
        return False
    return True


def explained(error: OSError) -> str:
    """Why a try failed, for people."""
    if isinstance(error, _ssl.SSLCertVerificationError):
        return "another program answers there: its certificate is not the controller's"
    return error.strerror or str(error)
