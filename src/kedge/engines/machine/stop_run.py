"""Stops a run from outside: asks its controller, or ends the remaining processes of a run that has lost it."""

from __future__ import annotations

import signal
import time

from kedge import processes
from kedge.engines.controller.stop_requests import KILL
from kedge.engines.machine import lost_runs
from kedge.engines.machine.lost_runs import End
from kedge.errors import CannotRun
from kedge.runs import controller_lock
from kedge.runs.folder import Run

_PATIENCE_SEC = 5.0  # for a controller to resume, or to be found


def stop(run: Run, kill: bool, end: End) -> tuple[str, ...]:
    """Ask the controller of a run to stop it (`kill`: without grace). If there is no controller, `end` the remaining
    processes and record the run's end and report, unless it has them; if several commands try that, one does it and
    the others wait. Returns notes for the user.

    A suspended controller is resumed first. If that fails, it is killed, but only with `kill`, and its tasks are ended
    after it is gone. If the controller cannot be found, perhaps because a task has taken its lock, the processes here
    are ended only with `kill`."""
    notes: tuple[str, ...] = ()
    if kill and not _is_reachable(run):
        end(run, kill)
    while controller := _of(run):
        notes = _ask(run, controller, kill)
        if processes.is_alive(controller):
            return notes
    lost_runs.close(run, kill, end)
    return notes


def _ask(run: Run, controller: processes.Process, kill: bool) -> tuple[str, ...]:
    processes.send(controller, KILL if kill else signal.SIGTERM)
    if not processes.is_suspended(controller.pid):
        return ()
    who = f"the job's controller (pid {controller.pid}) was suspended"
    if _resume(controller):
        return (f"{who}; it was resumed to stop the job",)
    if not kill:
        return (f"{who} and cannot be resumed; a debugger may hold it. End it with kedge stop --kill {run.id}",)
    processes.send(controller, signal.SIGKILL)
    processes.wait([controller])
    return (f"{who} and could not be resumed; it was killed with everything that it had started",)


def forward(run: Run, number: int) -> None:
    """Forward a signal to the controller of a run, if there is one, and resume it. CannotRun if it cannot be found."""
    owner = controller_lock.owner(run.lock)
    controller = processes.identify(owner.pid) if owner else None
    if not controller_lock.is_held(run.lock):
        return
    if not controller:
        raise _unreachable(run, owner)
    for each in (number, signal.SIGCONT):
        processes.send(controller, each)


def suspended(run: Run) -> int | None:
    """The pid of the run's controller if it is suspended."""
    owner = controller_lock.owner(run.lock)
    return owner.pid if owner and controller_lock.is_held(run.lock) and processes.is_suspended(owner.pid) else None


def _of(run: Run) -> processes.Process | None:
    """The controller of a run; None if the run is lost or has ended. CannotRun if its controller cannot be found."""
    end = time.monotonic() + _PATIENCE_SEC
    while True:
        owner = controller_lock.owner(run.lock)
        controller = processes.identify(owner.pid) if owner else None
        if not controller_lock.is_held(run.lock):
            return None
        if controller:
            return controller  # it held the lock before and after the lookup, so the pid is its own
        if time.monotonic() > end:  # so it is not one that was just starting or ending
            raise _unreachable(run, owner)
        time.sleep(0.01)


def _unreachable(run: Run, owner: controller_lock.Owner | None) -> CannotRun:
    who = f"a process that cannot be seen from here{controller_lock.shown(owner)}"
    return CannotRun(f"{run.id} is run by {who}; kedge stop --kill {run.id} ends what it has started here")


def _is_reachable(run: Run) -> bool:
    """Whether the run's controller can be found, or it has none."""
    try:
        _of(run)
    except CannotRun:
        return False
    return True


def _resume(controller: processes.Process) -> bool:
    """Resume a suspended controller. Returns whether that worked."""
    processes.send(controller, signal.SIGCONT)
    end = time.monotonic() + _PATIENCE_SEC
    while processes.is_suspended(controller.pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not processes.is_suspended(controller.pid)
