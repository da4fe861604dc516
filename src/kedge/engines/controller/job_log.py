"""The controller's event log, which must record how the job ended even if the disk is full."""

from __future__ import annotations

from typing import Any, Protocol

from kedge.engines.controller.stop_requests import Stops
from kedge.errors import DiskFull
from kedge.runs import disk_reserve
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

# What must also be known after a crash of the machine: another one may take over, which would decide it otherwise.
_SYNCED = frozenset(
    {
        JobEvent.TASK_RETRYING,
        JobEvent.STOP_REQUESTED,
        JobEvent.ATTEMPT_COMPLETED,
        JobEvent.JOB_RETRYING,
        JobEvent.ALLOCATION_REQUESTED,
        JobEvent.CONTROLLER_RESTARTED,
        JobEvent.JOB_COMPLETED,
    }
)
# What only one controller may decide.
_CHECKED = _SYNCED | {JobEvent.ATTEMPT_STARTED, JobEvent.TASK_COMPLETED}


class LogGuard(Protocol):
    """Decides who writes the log of a run that several controllers may want to write, on different machines."""

    def open(self) -> tuple[EventLog, str]:
        """Open the log, and what its readers should know about that, or an empty text."""

    def check(self, *, always: bool = True) -> None:
        """Returns only if this controller may still write; not `always`: if that was so a moment ago."""


class _OnlyWriter:
    """Nobody else wants to write."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def open(self) -> tuple[EventLog, str]:
        return EventLog(self._run.events), ""

    def check(self, *, always: bool = True) -> None:
        return


class JobLog:
    """Call it with an event and its facts. If the disk is full, it frees the run's reserve, writes the event and stops
    the job; `disk_full` is then the reason. DiskFull is raised only if the reserve is used up, too.
    """

    def __init__(self, run: Run, stops: Stops, guard: LogGuard | None = None) -> None:
        self._run, self._stops = run, stops
        self._guard: LogGuard = guard or _OnlyWriter(run)
        self._log, note = self._guard.open()
        self.disk_full = ""
        if note:
            self(JobEvent.NOTE, text=note, in_summary=True)

    def __enter__(self) -> JobLog:
        return self

    def __exit__(self, *error: object) -> None:
        disk_reserve.free(self._run.path)
        self._log.close()

    def __call__(self, event: str, **facts: Any) -> None:
        self._guard.check(always=event in _CHECKED)
        try:
            self._log.append(event, sync=event in _SYNCED, **facts)
        except DiskFull as error:
            if not disk_reserve.free(self._run.path):
                raise
            self.disk_full = str(error)
            self._log.append(event, sync=event in _SYNCED, **facts)
            self._stops.request("the full disk")
