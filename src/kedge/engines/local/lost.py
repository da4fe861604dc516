"""What a controller that was killed leaves behind: supervisors that go on, and their tasks."""

from __future__ import annotations

import signal

from kedge import processes
from kedge.contract import EVENTS_FILE, STARTING
from kedge.engines.machine import controllers
from kedge.runs import events
from kedge.runs.folder import Run

# What a supervisor needs beyond the job's grace period, to kill what is left and to say so.
PATIENCE_SEC = 15.0


def end(run: Run, kill: bool) -> None:
    """End every process of the run, by its stop ladder or (`kill`) at once."""
    supervisors = [] if kill else _supervisors(run)
    for supervisor in supervisors:
        processes.send(supervisor, signal.SIGTERM)
        processes.send(supervisor, signal.SIGCONT)
    processes.wait(supervisors, controllers.grace_sec(run) + PATIENCE_SEC)
    processes.kill(lambda: processes.of_job(run.id))


def _supervisors(run: Run) -> list[processes.Process]:
    """Those of the last attempt that still run, as they have named themselves."""
    said = [next(events.read(task.path / EVENTS_FILE), {}) for n in run.attempts()[-1:] for task in run.tasks(n)]
    found: set[object] = {(e.get("pid"), e.get("start_time")) for e in said if e.get("event") == STARTING}
    return [process for process in processes.of_job(run.id) if process in found]  # a task could name any other there
