"""A pipe from a program to the supervisor for data that does not belong into a log."""

from __future__ import annotations

import fcntl
import os

from kedge.light.types import Callable
from kedge.runtime.logs.pipes import Pipe
from kedge.runtime.process.loop import Loop

_LIMIT = 8 << 20  # bytes; an environment has at most 2 MiB
_FIRST_DESCRIPTOR = 100  # scripts use small descriptor numbers themselves


class SideChannel:
    """Reads what is written to `fd`, which the program inherits. Data beyond 8 MiB is dropped.

    `on_line` gets every whole line as soon as it arrives; `close` then returns only what follows the last one."""

    def __init__(self, loop: Loop, on_line: Callable[[bytes], None] | None = None) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self.fd = high(writer)
        self._received = bytearray()
        self._on_line = on_line
        self._pipe = Pipe(loop, reader, self._feed, _nothing)

    def release(self) -> None:
        """Close the end of this process, and read on until the program has closed its own."""
        os.close(self.fd)

    def close(self) -> bytes:
        """Close both ends, even if other processes still hold the descriptor, and return what was received."""
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
    """Move an open file to a descriptor number that scripts do not use, and close `fd`."""
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    except OSError:  # the limit of open files is too low
        return fd
    os.close(fd)
    return moved


def _nothing() -> None:
    pass
