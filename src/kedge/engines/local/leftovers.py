"""Ends what a killed controller leaves behind: its supervisors, which continue, and their tasks."""

from __future__ import annotations

import signal
from contextlib import suppress

from kedge import processes
from kedge.engines.local import process_record
from kedge.runs.folder import Run

# What a supervisor needs beyond the job's grace period to kill the remaining processes and record the end.
PATIENCE_SEC = 15.0


def end(run: Run, kill: bool) -> None:
    """End every process of the run, by its stop ladder or (`kill`) at once. CannotRun names those that cannot be
    ended."""
    supervisors = [] if kill else process_record.supervisors(run)
    for supervisor in supervisors:
        with suppress(PermissionError):  # reported at the end
            processes.send(supervisor, signal.SIGTERM)
            processes.send(supervisor, signal.SIGCONT)
    processes.wait(supervisors, run.stop_grace_sec() + PATIENCE_SEC)
    process_record.end(run)
