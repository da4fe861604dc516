"""The log of a container, line by line with the times at which the lines were printed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import httpx

from kedge.engines.kubernetes.transport.connections import socket_of

_LONGEST = 1 << 20  # bytes of a piece


class PrintedLine(NamedTuple):
    """A line with its end. `time` is as the kubelet writes it: texts of one length that sort by time."""

    time: str
    data: bytes


class PodLog:
    """The lines of a log; it ends with the container, or when the connection breaks. Of a line that has not ended
    nothing is yielded, unless it is very long: then it comes in pieces, all with its time."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._socket = socket_of(response)
        self._cut = ""  # the time of a line that has come in part

    def __iter__(self) -> Iterator[PrintedLine]:
        rest = b""
        try:
            for part in self._response.iter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield self._line(line + b"\n")
                    self._cut = ""
                if len(rest) > _LONGEST:
                    piece = self._line(rest)
                    self._cut, rest = piece.time, b""
                    yield piece
        except (httpx.HTTPError, httpx.StreamError, OSError):
            return
        finally:
            self._response.close()
        if rest:  # the container has ended
            yield self._line(rest)

    def close(self) -> None:
        """End it; another thread may be reading it, which then finds its end."""
        with suppress(OSError):
            if self._socket:
                self._socket.shutdown(socket.SHUT_RDWR)

    def _line(self, line: bytes) -> PrintedLine:
        if self._cut:
            return PrintedLine(self._cut, line)
        time, _, data = line.partition(b" ")
        return PrintedLine(time.decode(errors="replace"), data)
