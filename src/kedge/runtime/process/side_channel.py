"""A pipe by which a program tells the supervisor what is not for any log."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

from kedge.runtime.logs.pipes import Pipe
from kedge.runtime.process.loop import Loop

_LIMIT = 8 << 20  # bytes; an environment has at most 2 MiB
_FIRST = 100  # scripts use small numbers for themselves


class SideChannel:
    """Reads what is written to `fd`, which the program inherits. What is beyond 8 MiB is dropped.

    `on_line` gets every whole line as soon as it is there; `close` then returns only what follows the last one."""

    def __init__(self, loop: Loop, on_line: Callable[[bytes], None] | None = None) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self.fd = high(writer)
        self._received = bytearray()
        self._on_line = on_line
        self._pipe = Pipe(loop, reader, self._feed, _nothing)

    def close(self) -> bytes:
        """End it, whoever else still holds the descriptor, and return all that came."""
        os.close(self.fd)
        self._pipe.close()
        return bytes(self._received)

    def _feed(self, data: bytearray, length: int) -> None:
        if len(self._received) + length <= _LIMIT:
            self._received += memoryview(data)[:length]
        if self._on_line:
            *lines, self._received = self._received.split(b"\n")
            for line in lines:
                self._on_line(bytes(line))


def high(fd: int) -> int:
    """The same open file under a number that scripts do not use; `fd` itself is closed."""
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    except OSError:  # so many may not be open
        return fd
    os.close(fd)
    return moved


def _nothing() -> None:
    pass
