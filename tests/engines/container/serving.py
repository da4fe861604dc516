"""What the fake container engines of these tests share; they answer on a Unix socket."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeVar

Server = TypeVar("Server", bound=socketserver.BaseServer)


def answer(handler: BaseHTTPRequestHandler, value: Any, status: int = 200) -> None:
    """Answer in JSON without logging to the console."""
    data = json.dumps(value).encode()
    handler.send_response_only(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """A context in which the server runs."""
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
