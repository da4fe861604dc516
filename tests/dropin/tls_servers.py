"""Servers with certificates that are made for the tests."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """Files of a certificate that signs itself, and of its key."""

    file: Path
    key: Path

    @property
    def pem(self) -> bytes:
        return self.file.read_bytes()

    @property
    def both(self) -> bytes:
        return self.pem + self.key.read_bytes()


def certificate(folder: Path, name: str, *alternatives: str) -> Certificate:
    """A new certificate. `alternatives` are for example `IP:127.0.0.1`."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    names = ("-addext", f"subjectAltName={','.join(alternatives)}") if alternatives else ()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(made.key))
    command = ["openssl", "req", "-x509", *key, "-out", str(made.file), "-days", "2", "-subj", f"/CN={name}", *names]
    subprocess.run(command, check=True, capture_output=True)
    return made


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Print nothing about clients that refuse the certificate."""


@contextmanager
def serving_http(
    handler: Callable[..., http.server.BaseHTTPRequestHandler],
    own: Certificate | None = None,
    clients: Certificate | None = None,
) -> Iterator[str]:
    """The address of a server, with TLS if it has a certificate. `clients` is the certificate that clients need."""
    with _Server(("127.0.0.1", 0), handler) as server:
        if own:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(own.file, own.key)
            if clients:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(clients.file)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"{'https' if own else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
