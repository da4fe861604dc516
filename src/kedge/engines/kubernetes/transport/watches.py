"""A stream of changes of objects."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import httpx

from kedge.engines.kubernetes.transport import api_errors
from kedge.engines.kubernetes.transport.connections import socket_of

MARGIN_SEC = 15.0  # that the server may take longer than it was told


class ApiWatch:
    """Yields (type, object) as they come: ADDED, MODIFIED, DELETED, or BOOKMARK for a resource version alone.

    It ends when its time is over or the connection breaks: watch again from the last resource version. Expired,
    ApiError.
    """

    def __init__(self, response: httpx.Response, doing: str) -> None:
        self._response, self._doing = response, doing
        self._socket = socket_of(response)
        self._reading = threading.Lock()
        self._lines = self._read()

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return self

    def __next__(self) -> tuple[str, dict[str, Any]]:
        with self._reading:
            return next(self._lines)

    def close(self) -> None:
        """End it; another thread may be reading it, which then finds its end."""
        with suppress(OSError):
            if self._socket:
                self._socket.shutdown(socket.SHUT_RDWR)
        with self._reading:
            self._lines.close()
            self._response.close()

    def _read(self) -> Generator[tuple[str, dict[str, Any]], None, None]:
        try:
            for line in self._response.iter_lines():
                found = json.loads(line)
                kind, obj = found["type"], found["object"]
                if kind == "ERROR":
                    raise api_errors.refused(int(obj.get("code") or 500), json.dumps(obj).encode(), self._doing)
                yield kind, obj
        except (httpx.HTTPError, httpx.StreamError, OSError, ValueError, KeyError, TypeError):
            return  # the connection broke, and the last line may be cut
        finally:
            self._response.close()
