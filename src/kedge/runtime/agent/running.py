"""The supervisor that an agent watches: its events, requests to it, its end."""

from __future__ import annotations

import os

from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.light.types import Any, Callable
from kedge.runtime.agent import results
from kedge.runtime.agent.task_files import AttemptFiles
from kedge.runtime.process import procfs
from kedge.runtime.process.loop import READABLE, Loop

_AT_ONCE = 1 << 16  # bytes of events in one turn
_FIFO = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC  # read and write: so there is no end of file, and opening never waits


class RunningSupervisor:
    """Calls `on_event(event)` for each event of the supervisor. `known` are lines of events that were passed on
    already."""

    def __init__(
        self, loop: Loop, files: AttemptFiles, on_event: Callable[[dict[str, Any]], None], known: list[bytes]
    ) -> None:
        self.pid: int | None = None
        self._loop, self._on_event, self._known = loop, on_event, set(known)
        self._status, self._control = os.open(files.status, _FIFO), os.open(files.control, _FIFO)
        self._partial = b""
        loop.watch(self._status, READABLE, self._read)

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
        """Let a supervisor that was suspended go on, so that it can take requests."""
        found = procfs.process(self.pid) if self.pid else None
        if found and found.state in "Tt":
            self.signal(signal.SIGCONT)

    def finish(self) -> None:
        """The supervisor has ended: take the rest of its events."""
        while self._take():
            continue
        self._loop.unwatch(self._status)
        os.close(self._status)
        os.close(self._control)

    def _read(self, _events: int) -> None:
        self._take()

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
        return True
