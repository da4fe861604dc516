"""Servers on this machine that misbehave. Each is a place with the server's address in $URL."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .places import Place

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time to linger


class _Handler(BaseHTTPRequestHandler):
    """Responds to every request with its status."""

    def __init__(self, status: int, *args: object) -> None:
        self._status = status
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.send_response(self._status)
        if self._status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="zoo"')
        if self._status == 200:  # promises more than it sends
            self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"<html></html>")

    def log_message(self, *args: object) -> None:
        """Print no log."""


def answers(status: int) -> Callable[[Path], AbstractContextManager[Place]]:
    """An HTTP server that responds to everything with `status`; with 200, the body ends too early."""
    return partial(_http, status=status)


@contextmanager
def _http(folder: Path, status: int) -> Iterator[Place]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, status)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield _address(server.server_port)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def resets(folder: Path) -> Iterator[Place]:
    """A server that drops every connection after the first bytes."""
    with _listening() as server:
        thread = threading.Thread(target=_reset_all, args=(server,))
        thread.start()
        try:
            yield _address(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _reset_all(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # it is no longer listening
            return
        with connection:
            connection.recv(1 << 16)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


@contextmanager
def silent(folder: Path) -> Iterator[Place]:
    """A server that accepts connections and never responds."""
    with _listening() as server:
        yield _address(server.getsockname()[1])


def _listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def _address(port: int) -> Place:
    return Place(environment={"URL": f"http://127.0.0.1:{port}/data.bin"})
