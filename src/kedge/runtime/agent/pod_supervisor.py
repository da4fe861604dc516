"""The supervisor in the other container of a pod: it is started by the cluster, and is gone when nobody has its end of
the FIFO for events open any more."""

from __future__ import annotations

import select

from kedge.light.types import Any, Callable
from kedge.runtime.agent.keeper import PodFifos
from kedge.runtime.agent.running import RunningSupervisor
from kedge.runtime.agent.task_files import AttemptFiles
from kedge.runtime.process.loop import Loop
from kedge.runtime.spec_wait import WAITING


class PodSupervisor(RunningSupervisor):
    """Calls `on_there()` when it has started, and waits for its task; and `on_gone()` once, after its end."""

    def __init__(
        self,
        loop: Loop,
        fifos: PodFifos,
        files: AttemptFiles,
        on_event: Callable[[dict[str, Any]], None],
        has_room: Callable[[], bool],
        on_there: Callable[[], None],
        on_gone: Callable[[], None],
    ) -> None:
        self.gone = False
        self._fifos, self._on_there, self._on_gone = fifos, on_there, on_gone
        super().__init__(loop, files, on_event, has_room, [])

    def skip(self, known: list[bytes]) -> None:
        """Do not pass on these events."""
        self._known = set(known)

    def _opened(self, files: AttemptFiles) -> tuple[int, int]:
        return self._fifos.status, self._fifos.control

    def _read(self, events: int) -> None:
        if events & select.POLLHUP:  # what it has written is still there
            self.gone = True
            self._loop.unwatch(self._status)
            self._on_gone()
        else:
            super()._read(events)

    def _other_line(self, line: bytes) -> None:
        if line == WAITING.rstrip():
            self._on_there()
