"""The controller of a run from outside: asking it to stop, and taking over when it is lost."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kedge import processes
from kedge.contract import STOPPED_BY_USER, StopPolicy
from kedge.engines.controller.stops import KILL
from kedge.engines.machine import secret_files
from kedge.runs import events, lock, reserve, status
from kedge.runs.events import EventLog
from kedge.runs.folder import Run

_PATIENCE_SEC = 5.0  # with a controller that is told to go on

CleanUp = Callable[[Run, bool], None]


def stop(run: Run, kill: bool, clean_up: CleanUp) -> tuple[str, ...]:
    """Ask the controller of a run to stop it (`kill`: without grace); without one, clean up. Notes for the user.

    A controller that is suspended goes on first. One that cannot is ended when it is to kill: what it has begun is
    taken over only when it is gone."""
    controller = _of(run)
    if not controller or not processes.send(controller, KILL if kill else signal.SIGTERM):
        clean_up(run, kill)
        return ()
    if not processes.is_suspended(controller.pid):
        return ()
    who = f"the job's controller (pid {controller.pid}) was suspended"
    if _goes_on(controller):
        return (f"{who}; it goes on now, to stop the job",)
    if not kill:
        return (f"{who}, and does not go on: a debugger may hold it; kedge stop --kill {run.id} ends it",)
    processes.send(controller, signal.SIGKILL)
    processes.wait([controller])
    clean_up(run, kill)
    return (f"{who}, and did not go on: it was killed, and all that it had started",)


def suspended(run: Run) -> int | None:
    """The pid of the run's controller, if that is suspended."""
    controller = _of(run)
    return controller.pid if controller and processes.is_suspended(controller.pid) else None


def _of(run: Run) -> processes.Process | None:
    """The controller of a run; None when the run is lost, or has ended."""
    owner = lock.owner(run.lock)
    controller = processes.identify(owner.pid) if owner else None
    return controller if lock.is_held(run.lock) else None  # if it is held, then by whoever has this pid


def _goes_on(controller: processes.Process) -> bool:
    processes.send(controller, signal.SIGCONT)
    end = time.monotonic() + _PATIENCE_SEC
    while processes.is_suspended(controller.pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not processes.is_suspended(controller.pid)


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
    its end is written, unless it has one."""
    with lock.hold(run.lock):
        yield
        if secrets_dir := run.info().secrets_dir:
            secret_files.remove(secrets_dir)
        reserve.free(run.path)
        if status.fold(events.read(run.events)).state in status.FINAL:
            return
        with EventLog(run.events) as log:
            text = "stopped after its controller was lost"
            log.append(status.JOB_COMPLETED, sync=True, state=status.STOPPED, code=STOPPED_BY_USER, text=text)
