"""Reading the task's output, no faster than it can be passed on."""

from __future__ import annotations

import fcntl
import os
import time

from kedge.light.types import Callable
from kedge.runtime.logs.console import ConsoleCopy
from kedge.runtime.process.loop import READABLE, Loop

Feed = Callable[[bytearray, int], None]

_DEFAULT = 1 << 16  # bytes that a pipe holds at first; fewer where the user's share of pipe memory is used up
# Bytes. 1 MiB took up to twice as long, for the processor's cache does not hold it; 256 KiB took a tenth longer. The
# second is for where the user's share is nearly used up.
_ENLARGED = (1 << 19, 1 << 18)
_SMALL = 1 << 15  # bytes: a larger piece is worth a wake-up
_BUSY = 1 << 18  # bytes printed without a pause, after which a stream is busy
_PAUSE_SEC = 0.004
_LONGEST_NAP_SEC = 0.001


class ReadingPace:
    """Lets a busy stream arrive in large pieces: a reader that always waits is woken for each line, which costs the
    writer more time than the line itself. A stream that pauses now and then is never delayed."""

    def __init__(self) -> None:
        self._since_pause = 0  # bytes
        self._read_at = 0.0
        self._done_at = 0.0

    def nap(self, length: int, read_at: float, size: int) -> None:
        """After a piece of `length` bytes, read at `read_at` (of time.monotonic): if it is small and the stream busy,
        sleep until a pipe of `size` bytes will be about half full, but not long. A full pipe holds more than half of
        its size, whatever the size of the writes."""
        now = time.monotonic()
        self._since_pause = length + (self._since_pause if read_at < self._done_at + _PAUSE_SEC else 0)
        if self._since_pause > _BUSY and length < min(_SMALL, size // 2):
            half_full_at = read_at + (read_at - self._read_at) * size / 2 / length
            time.sleep(min(max(0.0, half_full_at - now), _LONGEST_NAP_SEC))
            now = time.monotonic()
        self._read_at, self._done_at = read_at, now


class Pipe:
    """The reading end `fd` of a pipe or FIFO, closed at end of file.

    `feed(buffer, length)` gets every piece and must not keep the buffer; `finish()` is called after the last piece.
    While `console` has a backlog nothing is read, so the writer has to wait. A pipe found half full is enlarged.

    The loop polls the pipe, although Linux then looks for somebody to wake at every write, a fifth of the time of what
    writes short lines. Threads that wait in tee(2) cost the writer nothing, but on a busy machine every fifth traceback
    was torn apart in the combined log, because the thread of the other stream ran first.
    """

    _buffer = bytearray(_DEFAULT)  # shared by all pipes: every piece is passed on before the next is read

    def __init__(
        self, loop: Loop, fd: int, feed: Feed, finish: Callable[[], None], console: ConsoleCopy | None = None
    ) -> None:
        self.fd = fd
        self.open = True
        self._loop = loop
        self._feed = feed
        self._finish = finish
        self._console = console
        self._size = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
        self._enlarged = False
        self._pace = ReadingPace()
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
        read_at = time.monotonic()
        length = self._read()
        if self._console and self._console.full and self.open:
            self._loop.unwatch(self.fd)
            self._console.when_drained(self._watch)
        elif length:
            if length >= self._size // 2 and not self._enlarged:
                self._enlarge()
            self._pace.nap(length, read_at, self._size)

    def _read(self) -> int:
        try:
            length = os.readv(self.fd, [self._buffer])
        except BlockingIOError:
            return 0
        if length:
            self._feed(self._buffer, length)
        else:
            self._end()
        return length

    def _enlarge(self) -> None:
        """Let the writer run ahead of its reader, and read pieces of which the system calls are a small part."""
        self._enlarged = True
        for size in _ENLARGED[1:] if self._console else _ENLARGED:  # what a slow console has not taken yet is in memory
            try:
                self._size = fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, size)
            except OSError:  # the user's share of pipe memory is used up
                continue
            if len(Pipe._buffer) < size:
                Pipe._buffer = bytearray(size)
            return

    def _end(self) -> None:
        self.open = False
        self._loop.unwatch(self.fd)
        os.close(self.fd)
        self._finish()
