"""Reading the task's output, no faster than it can be passed on."""

from __future__ import annotations

import fcntl
import os

from kedge.light.types import Callable
from kedge.runtime.logs.console import ConsoleCopy
from kedge.runtime.process.loop import READABLE, Loop

Feed = Callable[[bytearray, int], None]

_HALF_FULL = 1 << 15  # bytes: half of a pipe of the default size
_ENLARGED = 1 << 18  # measured optimum: larger pieces do not fit into the processor's cache
_buffer = bytearray(_ENLARGED)  # shared by all pipes: every piece is passed on before the next is read
_view = memoryview(_buffer)


class Pipe:
    """The reading end `fd` of a pipe or FIFO, closed at end of file.

    `feed(buffer, length)` gets every piece and must not keep the buffer; `finish()` is called after the last piece.
    While `console` has a backlog nothing is read, so the writer has to wait. A pipe found half full is enlarged.
    """

    def __init__(
        self, loop: Loop, fd: int, feed: Feed, finish: Callable[[], None], console: ConsoleCopy | None = None
    ) -> None:
        self.fd = fd
        self.open = True
        self._loop = loop
        self._feed = feed
        self._finish = finish
        self._console = console
        self._enlarged = False
        os.set_blocking(fd, False)
        self._watch()

    def drain(self) -> None:
        """Read all that has been written so far; more may follow if a process still holds the other end."""
        left = fcntl.fcntl(self.fd, fcntl.F_GETPIPE_SZ) if self.open else 0
        while left > 0 and (length := self._read()):
            left -= length

    def close(self) -> None:
        """Read what is in the pipe now, and close it."""
        self.drain()
        if self.open:
            self._end()

    def _watch(self) -> None:
        if self.open:
            self._loop.watch(self.fd, READABLE, self._on_ready)

    def _on_ready(self, _events: int) -> None:
        length = self._read()
        if length >= _HALF_FULL and not self._enlarged:
            self._enlarge()
        if self._console and self._console.full and self.open:
            self._loop.unwatch(self.fd)
            self._console.when_drained(self._watch)

    def _read(self) -> int:
        try:
            length = os.readv(self.fd, [_view])
        except BlockingIOError:
            return 0
        if length:
            self._feed(_buffer, length)
        else:
            self._end()
        return length

    def _enlarge(self) -> None:
        self._enlarged = True
        try:
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, _ENLARGED)
        except OSError:  # the user's share of pipe memory is used up
            return

    def _end(self) -> None:
        self.open = False
        self._loop.unwatch(self.fd)
        os.close(self.fd)
        self._finish()
