"""The controller of a run from outside: asking it to stop, and taking over when it is lost."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from kedge.contract import STOPPED_BY_USER, StopPolicy
from kedge.engines.controller.stops import KILL
from kedge.engines.machine import processes, secret_files
from kedge.runs import lock, reserve, status
from kedge.runs.events import EventLog
from kedge.runs.folder import Run


def ask_to_stop(run: Run, kill: bool) -> bool:
    """Ask the controller of a run to stop it (`kill`: without grace). False when the run is lost."""
    owner = lock.owner(run.lock)
    controller = processes.identify(owner.pid) if owner else None
    if controller and lock.is_held(run.lock):  # so it is the controller that has this pid
        return processes.send(controller, KILL if kill else signal.SIGTERM)
    return False


def grace_sec(run: Run) -> float:
    """How long the tasks of a run may take to stop; the default where its plan cannot be read, as after a crash of the
    machine."""
    try:
        return float(json.loads(run.plan_file.read_bytes())["stop"]["graceSec"])
    except (OSError, ValueError, KeyError, TypeError):
        return StopPolicy().grace_sec


@contextmanager
def taken_over(run: Run) -> Iterator[None]:
    """In the place of a lost controller: whoever enters ends what is left of the run. Then its secrets are removed, and
    its end is written."""
    with lock.hold(run.lock):
        yield
        if secrets_dir := run.info().secrets_dir:
            secret_files.remove(secrets_dir)
        reserve.free(run.path)
        with EventLog(run.events) as log:
            text = "stopped after its controller was lost"
            log.append(status.JOB_COMPLETED, sync=True, state=status.STOPPED, code=STOPPED_BY_USER, text=text)
