"""This user's runs: finds, awaits, stops and removes them."""

from __future__ import annotations

import importlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kedge.errors import CannotRun, InputError, KedgeError
from kedge.runs import controller_lock, copies, folder, kept_outputs, liveness, report, status
from kedge.runs.events import EventLog
from kedge.runs.folder import ENGINE_FILE, Run, RunInfo
from kedge.runs.status import JobStatus
from kedge.states import FINAL, WITHOUT_END, State

if TYPE_CHECKING:
    from kedge.engines.base import Engine

_LOG_SEC = 2.0  # for another command that writes the end of a run
_FETCH_SEC = 5.0  # for what is new of all runs
ENDING_SEC = 10.0  # after the job's end its controller only writes the report


def jobs_dir() -> Path:
    """The folder of this user's run folders."""
    return folder.jobs_dir(os.environ)


def find(name: str, *, logs: bool = False, outputs: tuple[str, ...] = ()) -> Run:
    """The run with this id, a unique prefix of its id, or a job's name, which means its newest run. What is new of a
    run whose folder is in a cluster is fetched, with its logs and the outputs below these folders if they are wanted
    (an empty text: all of them). A run that is not known here is looked for in the cluster of the settings."""
    try:
        found = folder.find(jobs_dir(), name)
    except InputError as error:
        if why := find_in_cluster(wanted=name):
            raise InputError(f"{error}; runs of other machines cannot be listed: {why}") from None
        found = folder.find(jobs_dir(), name)
    copies.fetch(found, logs=logs, outputs=outputs)
    return found


def out_of_date(run: Run) -> tuple[str, ...]:
    """Notes for the user about a run whose news could not be fetched."""
    return (f"{run.id} is shown as it was here: {why}",) if (why := copies.why_old(run)) else ()


def fetch_outputs(run: Run, folder: str, path: str) -> None:
    """Fetch a file or folder (an empty path: all) out of a folder of outputs of a run, if that is in a cluster.
    CannotRun."""
    if why := copies.fetch_files(run, folder, path):
        raise CannotRun(f"the outputs of {run.id} cannot be fetched: {why}")


def find_in_cluster(engine: str | None = None, wanted: str | None = None) -> str:
    """Make run folders for the runs that other machines have submitted to the cluster of an engine, or of the settings.
    Returns why that was not possible; empty if it was, or there is no such cluster."""
    finder = importlib.import_module("kedge.jobs.cluster_runs")  # it reads settings, which most commands need not
    why: str = finder.import_runs(jobs_dir(), engine, wanted)
    return why


def wait(run: Run, deadline: float | None = None) -> JobStatus:
    """Wait until the run has ended, with its report written, or is lost, and return its status. At `deadline` (a value
    of time.monotonic) return the current status."""
    with copies.KeptFresh(run):
        while True:
            over = not liveness.is_controlled(run)
            now = status.read(run)
            if over and now.state in FINAL:
                _complete(run)
            if over or (deadline and time.monotonic() > deadline):
                return now
            time.sleep(0.2)


def _complete(run: Run) -> None:
    """Do what the controller of a run that has ended does last, if it was killed before that."""
    run.cluster.remove_secrets()
    if not report.exists(run):
        with suppress(OSError, KedgeError), EventLog(run.events, _LOG_SEC):  # of several commands, one writes it
            report.complete(run)


def stop(run: Run, kill: bool = False) -> tuple[str, ...]:
    """Request a stop (`kill`: without grace) and return without waiting; if the controller is lost, end the processes
    that it left. Does nothing to a run that has ended. Returns notes for the user. FileNotFoundError: the run has been
    removed."""
    return engine_of(run).stop(run, kill)


def forward(run: Run, number: int) -> None:
    """Forward a signal with which a viewer requests a stop to the run's controller; does nothing without one. CannotRun
    if it cannot be reached."""
    engine_of(run).forward(run, number)


def release(run: Run) -> None:
    """Ask the run's controller to end the hold of a failed task; does nothing without one. CannotRun if it cannot be
    reached."""
    engine_of(run).forward(run, controller_lock.RELEASE)


def suspended(run: Run) -> int | None:
    """The pid of the run's controller if it is suspended, otherwise None."""
    return engine_of(run).suspended(run)


def remove(run: Run) -> None:
    """Delete the folder of a run that has ended, with all its logs. Concurrent calls are safe. InputError: it is still
    running; CannotRun: it does not end."""
    with suppress(FileNotFoundError):  # another process has removed it
        _end_if_lost(run)
        with EventLog(run.events):  # keeps others from ending or removing it
            engine_of(run).forget(run)
            folder.delete(run)


def keep_outputs(run: Run) -> None:
    """Delete everything of a run that has ended but its outputs and what describes it. InputError, CannotRun: as
    `remove`."""
    _end_if_lost(run)
    if why := copies.fetch(run, outputs=("",)):
        raise CannotRun(f"the outputs of {run.id} cannot be fetched, so nothing of it is deleted: {why}")
    with EventLog(run.events):
        engine_of(run).forget(run)
        kept_outputs.keep(run)


def refuse_active(run: Run) -> None:
    """InputError for a run that is not to be removed, because its controller lives."""
    now = status.read(run)
    if now.state not in FINAL | WITHOUT_END:
        state = now.state if now.pending is None else "pending"
        raise InputError(f"{run.id} is {state}: stop it first (kedge stop {run.id})")


def _end_if_lost(run: Run) -> None:
    refuse_active(run)
    if status.read(run).state in WITHOUT_END:
        engine_of(run).stop(run, kill=False)
    now = wait(run, time.monotonic() + ENDING_SEC)  # for its report
    if liveness.is_controlled(run) or now.state == State.LOST:
        os.lstat(run.run_file)
        raise CannotRun(
            f"{run.id} has not ended{controller_lock.shown(controller_lock.owner(run.lock))}, so it is not removed"
        )


def engine_of(run: Run) -> Engine:
    """The engine of a run. FileNotFoundError: the run has been removed; InputError: this kedge has no such engine."""
    registry = importlib.import_module("kedge.engines.registry")  # listing runs needs no engine
    try:
        info = run.info()
    except InputError:
        os.lstat(run.run_file)
        raise
    name = info.engine
    if info.damage:  # guess the engine from its own file
        name = "container" if os.path.lexists(run.path / ENGINE_FILE) else "local"
    try:
        return registry.make(name)  # type: ignore[no-any-return]
    except registry.UnknownEngine as error:
        raise InputError(f"{run.id} uses the engine {name!r}, which is not installed here") from error


def all_runs() -> list[tuple[Run, RunInfo, JobStatus]]:
    """Every run of this user with its status, newest first."""
    listed = folder.listed(jobs_dir())
    copies.fetch_all((run for run, _ in listed), _FETCH_SEC)
    found = [(run, info, status.read(run)) for run, info in listed]
    return [each for each in found if os.path.lexists(each[0].path)]  # without runs that were removed meanwhile


def run_ids() -> list[str]:
    """The ids of all runs, newest first."""
    return [info.id for _, info in folder.listed(jobs_dir())]
