"""Copying to the supervisor's own stdout and stderr without ever waiting for their readers."""

from __future__ import annotations

import os
import select
import stat

from kedge.light.types import Callable
from kedge.own_files import Buffer, write_all
from kedge.runtime.process.loop import NEVER, WRITABLE, Loop

_BACKLOG = 1 << 16  # bytes; with this much waiting, the source should pause
_SAFE = select.PIPE_BUF  # bytes that a writable pipe takes without blocking


class ConsoleCopy:
    """A copy of a stream to one descriptor.

    The descriptor is shared with other processes, so it is not made non-blocking; instead, no more is written than
    poll(2) guarantees not to block. When the reader has gone away, the copy is dropped; the log files are not affected.
    """

    def __init__(self, loop: Loop, fd: int) -> None:
        self._loop = loop
        self._fd = fd
        self._waiting = bytearray()
        self._drained: list[Callable[[], None]] = []
        self._gone = False
        self._is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        self._poll = select.poll()
        self._poll.register(fd, WRITABLE)

    @property
    def full(self) -> bool:
        """Whether sources should pause until the backlog is written."""
        return len(self._waiting) >= _BACKLOG

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the backlog has been written."""
        self._drained.append(callback)

    def write(self, data: Buffer) -> None:
        """Add a copy of `data` to the backlog, and write what can be written now."""
        if self._gone:
            return
        if self._is_file:
            self._try(lambda: write_all(self._fd, data))
            return
        was_empty = not self._waiting
        self._waiting += data
        if was_empty:
            self._flush()
            if self._waiting:
                self._loop.watch(self._fd, WRITABLE, self._resume)

    def finish(self, deadline: float = NEVER) -> None:
        """Wait until the backlog is written, at most until `deadline` (of time.monotonic)."""
        self._loop.until(lambda: not self._waiting, deadline)
        self._stop_waiting()

    def _resume(self, _events: int) -> None:
        self._flush()
        if not self._waiting:
            self._stop_waiting()

    def _flush(self) -> None:
        while self._waiting and self._poll.poll(0):
            self._try(self._write_piece)

    def _write_piece(self) -> None:
        del self._waiting[: os.write(self._fd, self._waiting[:_SAFE])]

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError:
            self._gone = True
            self._waiting.clear()

    def _stop_waiting(self) -> None:
        self._loop.unwatch(self._fd)
        self._waiting.clear()
        callbacks, self._drained = self._drained, []
        for callback in callbacks:
            callback()
