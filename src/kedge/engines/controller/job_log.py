"""The controller's event log, which must record how the job ended even if the disk is full."""

from __future__ import annotations

from typing import Any

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


class JobLog:
    """Call it with an event and its facts. If the disk is full, it frees the run's reserve, writes the event and stops
    the job; `disk_full` is then the reason. DiskFull is raised only if the reserve is used up, too.
    """

    def __init__(self, run: Run, stops: Stops) -> None:
        self._run, self._stops = run, stops
        self._log = EventLog(run.events)
        self.disk_full = ""

    def __enter__(self) -> JobLog:
        return self

    def __exit__(self, *error: object) -> None:
        disk_reserve.free(self._run.path)
        self._log.close()

    def __call__(self, event: str, **facts: Any) -> None:
        try:
            self._log.append(event, sync=event in _SYNCED, **facts)
        except DiskFull as error:
            if not disk_reserve.free(self._run.path):
                raise
            self.disk_full = str(error)
            self._log.append(event, sync=event in _SYNCED, **facts)
            self._stops.request("the full disk")
