"""The socket on which the controller waits for agents, with the certificate of the run."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from kedge.link.keys import LinkKeys
from kedge.link.stream import LinkStream

_BACKLOG = 1024  # connections that the kernel keeps while the controller is busy; more would wait for too long
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class TooManyFiles(Exception):
    """There is no descriptor or memory left for another connection now."""


class LinkListener:
    """Listens on all addresses of this machine, on a port of the system's choice if `port` is 0. OSError."""

    def __init__(self, keys: LinkKeys, port: int) -> None:
        self._tls = _context(keys)
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._socket = socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> tuple[LinkStream, str] | None:
        """The next connection and the address it comes from; None if nobody waits. TooManyFiles."""
        try:
            raw, address = self._socket.accept()
        except OSError as error:
            if error.errno in _SHORTAGES:
                raise TooManyFiles from None
            return None  # the other side has given up meanwhile, or nobody waits
        raw.setblocking(False)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secured = self._tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        except OSError:  # it has gone already
            raw.close()
            return None
        return LinkStream(secured, secured), address[0].removeprefix("::ffff:")

    def close(self) -> None:
        self._socket.close()


def _context(keys: LinkKeys) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # nobody resumes a session
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    fd = os.memfd_create("link")  # OpenSSL reads keys from files; this one is on no disk
    try:
        os.write(fd, f"{keys.key}\n{keys.certificate}".encode())
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    return context
