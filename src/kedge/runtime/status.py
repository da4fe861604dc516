"""Reporting events to the controller without ever waiting for it."""

from __future__ import annotations

import os

from kedge.runtime.process.loop import WRITABLE, Loop

_MAX_WAITING = 1024  # lines; with so many waiting, nobody reads them


class Status:
    """The non-blocking pipe to the controller, shared by all tasks of a job. If `fd` is None, lines are dropped.

    It takes whole lines of at most PIPE_BUF bytes. When the pipe is full, lines wait until there is room again.
    """

    def __init__(self, loop: Loop, fd: int | None) -> None:
        self._loop = loop
        self._fd = fd
        self._waiting: list[bytes] = []

    def write(self, line: bytes) -> None:
        """Queue a line, and write as much of the queue as the pipe takes now."""
        if self._fd is None or len(self._waiting) == _MAX_WAITING:
            return
        self._waiting.append(line)
        self._flush()

    def _flush(self, _events: int = 0) -> None:
        assert self._fd is not None
        try:
            while self._waiting:
                os.write(self._fd, self._waiting[0])
                del self._waiting[0]
        except BlockingIOError:
            self._loop.watch(self._fd, WRITABLE, self._flush)
            return
        except OSError:  # nobody reads the pipe any more; events.jsonl has every line
            self._waiting.clear()
        self._loop.unwatch(self._fd)
