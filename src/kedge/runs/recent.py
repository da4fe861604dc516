"""The recent part of a run that is already active: what a viewer that comes later shows of it."""

from __future__ import annotations

from pathlib import Path

from kedge.runs import events, status
from kedge.runs.events import Event
from kedge.runs.folder import Run
from kedge.runs.logs import StreamReader
from kedge.states import State

_LINES = 20  # shown of all running tasks together, but at least one of each


class Recent:
    """What is new in a run from now on, and the last lines before that of the tasks that are running."""

    def __init__(self, run: Run) -> None:
        self.status = now = status.read(run)
        self._last = max((event.get("time", "") for event in events.read(run.events)), default="")
        old = {task.path for attempt in run.attempts() for task in run.tasks(attempt)}
        running = [task for task in now.tasks if task.state == State.RUNNING]
        share = max(1, _LINES // max(1, len(running)))
        shown = {run.task(task.role, task.index, now.attempt, max(0, task.attempts - 1)): share for task in running}
        self._kept = dict.fromkeys(old, 0) | shown

    def is_new(self, event: Event) -> bool:
        """Whether an event of the controller is newer than this value."""
        return bool(event.get("time", "") > self._last)

    def reader(self, folder: Path, stream: str) -> StreamReader:
        """A reader of the recent part of a task attempt's stream."""
        reader = StreamReader(folder, stream)
        if folder in self._kept:
            reader.skip_except(self._kept[folder])
        return reader
