"""Records why launched tasks cannot start yet, for `kedge ps` and `kedge show`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice

from kedge.engines.base import Task
from kedge.engines.cluster.member import Member
from kedge.engines.controller.states import Emit
from kedge.runs.job_events import JobEvent

_FIRST_SEC, _LONGEST_SEC = 5.0, 60.0  # between two looks; most tasks start before the first
_MOST = 20  # tasks in one look


class TaskWaits:
    """Records why tasks wait, whenever it is something new; of a large job for some of them."""

    def __init__(self, emit: Emit, whereabouts: Callable[[Task], str], now: float) -> None:
        self._emit, self._whereabouts = emit, whereabouts
        self._told: dict[Task, str] = {}
        self._places: dict[Task, Member] = {}  # that wait for their own, as all others run
        self._pause = _FIRST_SEC
        self._look_at = now + _FIRST_SEC

    def due(self, *, at_barrier: bool) -> float:
        """When to look again, by time.monotonic(); infinite if nothing waits."""
        return self._look_at if at_barrier or self._places else math.inf

    def look(self, at_barrier: Iterable[Member], now: float) -> None:
        """Say why these tasks wait, and those without a place, if it is time."""
        if now < self._look_at:
            return
        for member in islice((*at_barrier, *self._places.values()), _MOST):
            text = self._whereabouts(member.task)
            if text and text != self._told.get(member.task):
                self._tell(member.task, text)
        self._look_at, self._pause = now + self._pause, min(_LONGEST_SEC, 1.5 * self._pause)

    def for_place(self, member: Member, now: float) -> None:
        """A further attempt of a task waits for a place of its own."""
        self._places[member.task], self._pause = member, _FIRST_SEC
        self._look_at = now + _FIRST_SEC

    def over(self, member: Member) -> None:
        """A task starts, or has started. At the barrier that is said for all at once."""
        self._places.pop(member.task, None)
        if member.launched_for:
            self._tell(member.task, None)

    def _tell(self, task: Task, text: str | None) -> None:
        self._told[task] = text or ""
        self._emit(JobEvent.TASK_WAITING, role=task.role, index=task.task_index, text=text)
