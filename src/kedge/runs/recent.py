"""The recent part of a run that is already active: what a viewer that comes later shows of it."""

from __future__ import annotations

from kedge.runs import events, status
from kedge.runs.events import Event
from kedge.runs.folder import Run
from kedge.runs.task_logs import last_lines

_LINES = 20  # shown of all tasks together


class Recent:
    """What is new in a run from now on, and the last lines before that: its logs from there on are `begin`."""

    def __init__(self, run: Run) -> None:
        self.status = status.read(run)
        self.begin = last_lines(run, _LINES)
        self._last = max((event.get("time", "") for event in events.read(run.events)), default="")

    def is_new(self, event: Event) -> bool:
        """Whether an event of the controller is newer than this value."""
        return bool(event.get("time", "") > self._last)
