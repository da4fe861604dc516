"""Telling the controller what happens, without ever waiting for it."""

from __future__ import annotations

import os

from kedge.runtime.process.loop import WRITABLE, Loop

_MOST = 1024  # lines that wait; so many say only that nobody reads them


class Status:
    """The non-blocking pipe to the controller, which all tasks of a job share; None where there is none.

    It takes whole lines of at most PIPE_BUF bytes. What is full takes the rest as soon as there is room again.
    """

    def __init__(self, loop: Loop, fd: int | None) -> None:
        self._loop = loop
        self._fd = fd
        self._waiting: list[bytes] = []

    def write(self, line: bytes) -> None:
        """Take a line, and write what can be written now."""
        if self._fd is None or len(self._waiting) == _MOST:
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
        except OSError:  # nobody listens any more: the file has it all
            self._waiting.clear()
        self._loop.unwatch(self._fd)
