"""The supervisor that an agent watches: its events, requests to it, its end."""

from __future__ import annotations

import os
import time

from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.light.types import Any, Callable
from kedge.runtime.agent import results
from kedge.runtime.agent.task_files import AttemptFiles
from kedge.runtime.process import procfs
from kedge.runtime.process.loop import READABLE, Loop

_AT_ONCE = 1 << 16  # bytes of events in one turn
_MOST_AT_THE_END = 64  # such turns: a pipe holds less
_PAUSE_SEC = 1.0
_FIFO = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC  # read and write: so there is no end of file, and opening never waits


class RunningSupervisor:
    """Calls `on_event(event)` for each event of the supervisor, as long as there is `has_room()` for more. `known` are
    lines of events that are not to be passed on."""

    def __init__(
        self,
        loop: Loop,
        files: AttemptFiles,
        on_event: Callable[[dict[str, Any]], None],
        has_room: Callable[[], bool],
        known: list[bytes],
    ) -> None:
        self.pid: int | None = None
        self._loop, self._on_event, self._has_room, self._known = loop, on_event, has_room, set(known)
        self._over = False
        self._status, self._control = self._opened(files)
        self._partial = b""
        self._read_on()

    def _opened(self, files: AttemptFiles) -> tuple[int, int]:
        return os.open(files.status, _FIFO), os.open(files.control, _FIFO)

    def request(self, line: str) -> None:
        """Ask the supervisor for one of the requests of kedge.runtime.control."""
        with suppress(BlockingIOError):  # it has not read a thousand requests: it is suspended, or about to end
            os.write(self._control, f"{line}\n".encode())

    def signal(self, number: int) -> None:
        """Send a signal to the supervisor, which passes it on to the command."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wake(self) -> None:
        """Resume a supervisor that was suspended, so that it can take requests."""
        found = procfs.process(self.pid) if self.pid else None
        if found and found.state in "Tt":
            self.signal(signal.SIGCONT)

    def finish(self) -> None:
        """The supervisor has ended: take the rest of its events."""
        self._over = True
        for _ in range(_MOST_AT_THE_END):
            if not self._take():
                break
        self._loop.unwatch(self._status)
        os.close(self._status)
        os.close(self._control)

    def _read_on(self) -> None:
        if not self._over:
            self._loop.watch(self._status, READABLE, self._read)

    def _read(self, _events: int) -> None:
        if self._has_room():
            self._take()
        else:  # a task that floods the pipe, and a controller that is away: the supervisor drops what does not fit
            self._loop.unwatch(self._status)
            self._loop.alarm(time.monotonic() + _PAUSE_SEC, self._read_on)

    def _take(self) -> bool:
        """Take the events that are there, up to a limit. False if there are none."""
        try:
            data = os.read(self._status, _AT_ONCE)
        except OSError:
            return False
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest[-_AT_ONCE:]
        for line in lines:
            if line in self._known:
                self._known.discard(line)
            elif event := results.event(line):
                self._on_event(event)
            else:
                self._other_line(line)
        return True

    def _other_line(self, line: bytes) -> None:
        """A line that is no event."""
