"""Requests to the supervisor from the agent of its task, as lines in a FIFO. A controller that starts supervisors
itself sends them signals instead, with the same effects."""

from __future__ import annotations

import os
import stat

from kedge.contract import SHELL_KILLED
from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.light.types import Callable, NoReturn
from kedge.runtime.process import procfs, signals
from kedge.runtime.process.loop import READABLE, Loop

WARN, STOP, END_GRACE, RELEASE = "warn", "stop", "end-grace", "release"
KILL = "kill"  # end at once, without a report, as when the agent itself kills the supervisor
SPEC = "spec"  # the TaskSpec has been written: this line only wakes the process that waits for it

_SIGNALS = {WARN: signals.NOTICE, STOP: signal.SIGTERM, END_GRACE: signal.SIGINT, RELEASE: signals.NOTICE}
_LONGEST = 4096  # bytes of a line; what is longer is no request


class Control:
    """Calls `on_signal(number)` for each request in the FIFO `fd`. Other lines are ignored."""

    def __init__(self, loop: Loop, fd: int, on_signal: Callable[[int], None]) -> None:
        self._loop, self._fd, self._on_signal = loop, fd, on_signal
        self._partial = b""
        loop.watch(fd, READABLE, self._read)

    def close(self) -> None:
        """Leave what has not been read to the next reader of the descriptor."""
        self._loop.unwatch(self._fd)

    def _read(self, _events: int) -> None:
        try:
            data = os.read(self._fd, _LONGEST)
        except OSError:  # another process has read it
            return
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest[-_LONGEST:]
        for line in lines:
            if line == KILL.encode():
                end_at_once()
            if number := _SIGNALS.get(line.decode(errors="replace")):
                self._on_signal(number)


def end_at_once() -> NoReturn:
    """Kill what this process has started, and end. If it is the first process of a container, the kernel kills the
    rest of that."""
    for each in procfs.descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each.pid, signal.SIGKILL)
    os._exit(SHELL_KILLED)


def open_fifo(path: str) -> int:
    """Open the FIFO without waiting for a writer. It is opened for writing, too, so that there is no end of file when a
    writer leaves. ValueError if it is none."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        raise ValueError(f"{path}: not a FIFO")
    return fd
