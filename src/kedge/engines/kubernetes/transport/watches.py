"""A stream of changes of objects."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

from kedge.engines.kubernetes.transport import api_errors

MARGIN_SEC = 15.0  # that the server may take longer than it was told


class ApiWatch:
    """Yields (type, object) as they come: ADDED, MODIFIED, DELETED, or BOOKMARK for a resource version alone.

    It ends when its time is over or the connection breaks: watch again from the last resource version. Expired,
    ApiError.
    """

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, doing: str) -> None:
        self._connection, self._response, self._doing = connection, response, doing
        self._socket = connection.sock
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
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._reading:
            self._lines.close()
            self._end()

    def _read(self) -> Generator[tuple[str, dict[str, Any]], None, None]:
        try:
            while line := self._line():
                kind, found = line.get("type"), line.get("object")
                if not isinstance(kind, str) or not isinstance(found, dict):
                    return
                if kind == "ERROR":
                    raise api_errors.refused(int(found.get("code") or 500), json.dumps(found).encode(), self._doing)
                yield kind, found
        finally:
            self._end()

    def _end(self) -> None:
        self._response.close()
        self._connection.close()

    def _line(self) -> dict[str, Any] | None:
        """The next line; None at the end, or if the connection broke: then the last line may be cut."""
        try:
            line = self._response.readline()
            found = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return None
        return found if isinstance(found, dict) else None
