"""Cleans up a lost run, one whose controller is gone: ends what is left, and records the run's end and report."""

from __future__ import annotations

from collections.abc import Callable

from kedge.contract import STOPPED_BY_USER
from kedge.engines.machine import secret_files
from kedge.errors import CannotRun
from kedge.runs import disk_reserve, events, report, status
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import FINAL, State

_ENDING_SEC = 20.0  # how long another command may take beyond the grace period to end the rest of a run
_PATIENCE_SEC = 5.0  # for a task that held the log to be gone

# Ends all remaining processes of a run, by the stop ladder or (True) at once.
End = Callable[[Run, bool], None]


def close(run: Run, kill: bool, end: End) -> None:
    """End what is left of a run, by `end`, and record the run's end and report in place of its lost controller. The
    run's log has one writer, so only one command does this at a time. Does nothing if the run was removed in the
    meantime. CannotRun: another process holds the log."""
    if kill and events.is_written(run.events):
        end(run, kill)  # another command holds the log while the tasks have their grace period
    try:
        log = _own_log(run, end)
    except FileNotFoundError:
        return
    with log:
        if status.fold(events.read(run.events)).state in FINAL:
            report.complete(run)
            return
        end(run, kill)
        secret_files.remove_all(run)
        disk_reserve.free(run.path)
        text = "stopped after its controller was lost"
        log.append(JobEvent.JOB_COMPLETED, sync=True, state=State.STOPPED, code=STOPPED_BY_USER, text=text)
        report.complete(run)


def _own_log(run: Run, end: End) -> EventLog:
    """The log of a lost run, once other commands have finished with it. A task that keeps it locked is killed;
    CannotRun if the log is still locked then."""
    for patience in (run.stop_grace_sec() + _ENDING_SEC, _PATIENCE_SEC):
        try:
            return EventLog(run.events, patience)
        except TimeoutError:
            end(run, True)
    raise CannotRun(f"{run.id} is not stopped: another process has locked {run.events}; end that process first")
