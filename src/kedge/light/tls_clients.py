"""Clients of ssl: a context, and a connection with the methods of a socket, by the C functions that `ssl` is built on.
Errors are those of ssl, all of them OSError."""

from __future__ import annotations

import _socket
import _ssl

from kedge.light.types import Any

_RAGGED_END = 8  # ssl.SSL_ERROR_EOF: the other side has closed the connection without a word


def client_context() -> Any:
    """A new context for clients, that trusts nobody yet: an SSLContext with `check_hostname`, and with the methods
    `load_verify_locations`, `set_default_verify_paths` and `load_cert_chain` in their C form."""
    return _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)


def do_not_verify(context: Any) -> None:
    """Accept every certificate."""
    context.check_hostname, context.verify_mode = False, _ssl.CERT_NONE


def trust_only(context: Any, certificate: str) -> None:
    """Accept this certificate (PEM), which has signed itself, and no other, whatever the name of the server is."""
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)


class WeakSocket(_socket.socket):
    """A socket that TLS can be put on, which refers to it only weakly."""

    __slots__ = ("__weakref__",)


def non_blocking(context: Any, raw: WeakSocket) -> Any:
    """TLS on a connected socket that does not block: an object with `do_handshake`, `read` and `write`, which raise
    SSLWantReadError and SSLWantWriteError."""
    return context._wrap_socket(raw, False, None, owner=None, session=None)


class TlsSocket:
    """A connected socket with TLS. The handshake is done when this is made; the socket's time limit is for each one."""

    def __init__(self, context: Any, raw: _socket.socket, name: str) -> None:
        self._raw = raw
        self._tls = context._wrap_socket(raw, False, name, owner=None, session=None)
        self._tls.do_handshake()

    def settimeout(self, seconds: float) -> None:
        self._raw.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        try:
            received: bytes = self._tls.read(size)
        except _ssl.SSLError as error:
            if error.args[0] == _RAGGED_END:
                return b""
            raise
        return received

    def close(self) -> None:
        self._raw.close()
