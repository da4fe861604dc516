"""TLS for a connection."""

from __future__ import annotations

import _socket
import os

from kedge import certificate_authorities
from kedge.dropin.net.http_connections import Tls
from kedge.light import tls_clients
from kedge.light.tls_clients import TlsSocket
from kedge.light.types import Any


def secured(raw: _socket.socket, tls: Tls, host: str) -> TlsSocket:
    """Put TLS on a connected socket, with its time limit for the handshake. OSError, as ssl.SSLError."""
    context = tls_clients.client_context()
    if not tls.verify:
        tls_clients.do_not_verify(context)
    elif tls.ca is None:
        certificate_authorities.trust_usual(context)
    else:
        context.load_verify_locations(cadata=tls.ca.decode("latin-1"))
    if tls.client is not None:
        _present(context, tls.client)
    return TlsSocket(context, raw, tls.name or host)


def _present(context: Any, client: bytes) -> None:
    """Load the client's certificate. OpenSSL reads it from a file: from one in memory, because it holds a key."""
    fd = os.memfd_create("client")
    try:
        os.write(fd, client)
        context.load_cert_chain(f"/proc/self/fd/{fd}", None, "")
    finally:
        os.close(fd)
