"""The life of a job on one page: load, resolve, plan, submit, run, follow, stop. The command line uses only this."""

from __future__ import annotations

import getpass
import importlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from kedge import __version__
from kedge.contract import WORK_DIR, TaskSpec
from kedge.controller.client import Controller
from kedge.diagnose.exit_spec import exitspec
from kedge.diagnose.exit_spec.exitspec import ExitSpec, is_exit_spec
from kedge.diagnose.rules import rule_files
from kedge.engines.base import Engine, EngineRequest, Task
from kedge.engines.registry import UnknownEngine, images_here, make
from kedge.errors import CannotRun, InputError, Problem
from kedge.plan.build import build
from kedge.plan.lossless import to_lossless
from kedge.plan.model import Plan
from kedge.plan.task import Placement, task_spec
from kedge.quick_dataclasses import dataclass
from kedge.resolve import lock_file
from kedge.resolve.document_cache import DocumentCache, default_folder
from kedge.resolve.document_store import ALL
from kedge.resolve.lock_file import Pin
from kedge.resolve.model import Inputs, LockState, Secrets
from kedge.resolve.resolve import resolve
from kedge.runs import code_snapshot, controller_lock, disk_reserve, folder, status
from kedge.runs.atomic_files import write_atomic, write_json
from kedge.runs.events import EventLog
from kedge.runs.folder import ENGINE_FILE, Run, RunInfo
from kedge.runs.job_events import JobEvent
from kedge.runs.status import JobStatus
from kedge.spec.files import STDIN
from kedge.spec.model import Job
from kedge.spec.parse import load
from kedge.spec.redact import is_masked, mask_secrets, masked_values
from kedge.states import FINAL, WITHOUT_END, State

_ENDING_SEC = 10.0  # after the job's end its controller only writes the report


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job that is ready to be submitted. `warnings` report likely mistakes in its file."""

    job: Job
    plan: Plan
    secrets: Secrets = field(repr=False)
    locked: LockState
    parameters: Mapping[str, Any] = field(default_factory=dict)  # the file's and the submitter's
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job with its run folder, and the process that will be its controller. Call `start` or `withdraw` next.

    `notes` are for the submitter, about the copy of the code.
    """

    run: Run
    prepared: PreparedJob
    where: Engine
    controller: Controller
    notes: tuple[str, ...] = ()


def prepare(path: str, inputs: Inputs) -> PreparedJob:
    """Load, resolve and plan a job file. InputError: lists every problem."""
    job, problems = load(path, {*inputs.parameters, *inputs.secrets})
    resolved = resolve(job, inputs, problems)
    plan = build(resolved)
    if is_masked(resolved.job):
        plan = replace(plan, notes=(*plan.notes, "the secrets of this file were removed when it was stored"))
    parameters = {**resolved.job.parameters, **inputs.parameters}
    return _with_new_pins(
        PreparedJob(resolved.job, plan, resolved.secrets, resolved.lock, parameters, resolved.warnings)
    )


def _with_new_pins(prepared: PreparedJob) -> PreparedJob:
    """The job with new pins for the images whose change the submitter accepts."""
    state = prepared.locked
    if state.old is None or not state.images:
        return prepared
    pins = _image_pins(state.images)
    roles = (replace(role, pin=pins[role.image].value) if role.image in pins else role for role in prepared.plan.roles)
    locked = state._replace(new=replace(state.new, images={**state.new.images, **pins}))
    return replace(prepared, plan=replace(prepared.plan, roles=tuple(roles)), locked=locked)


def _image_pins(images: Iterable[str]) -> dict[str, Pin]:
    """The current pin of every image: that of the local image, or else of the registry's."""
    remote = importlib.import_module("kedge.resolve.sources.pinning").digests(images)  # slow to import, rarely needed
    local = images_here({image: pin.value for image, pin in remote.items()})
    return {image: Pin(local[image]) if image in local else pin for image, pin in remote.items()}


def lock_names(path: str, inputs: Inputs) -> tuple[str, lock_file.Lock]:
    """Write a job's lock file with the current content behind every name outside the job. Returns its path and content.
    A job from stdin has no lock file; the path is then empty."""
    prepared = prepare(path, replace(inputs, update_lock=(ALL,)))
    state = prepared.locked
    renewed = state.new.images if state.old else _image_pins(state.images)
    images = {image: renewed[image] for image in state.images}
    pinning = importlib.import_module("kedge.resolve.sources.pinning")  # slow to import and rarely needed
    new = replace(state.new, git=pinning.commits(state.repositories), images=images)
    if state.path:
        lock_file.save(state.path, new)
    return state.path, new


def cache() -> DocumentCache:
    """The cache of the documents that this user's jobs have fetched."""
    return DocumentCache(default_folder(os.environ))


def example_spec(plan: Plan, role: str, index: int) -> TaskSpec:
    """The spec of one task, with placeholders for the placement that an engine will choose."""
    place = f"RUN/attempt-0/{role}-{index}"
    resources, code = plan.role(role).resources, plan.role(role).code
    placement = Placement(
        job_id="RUN",
        job_attempt=0,
        task_attempt=0,
        uid="UID",
        folder=place,
        workdir=f"RUN/code/{code}" if code else f"{place}/{WORK_DIR}",
        host="HOST",
        ports={label: [0] * count for label, count in resources.ports.items()},
        peers_file="RUN/attempt-0/peers.json",
    )
    return task_spec(plan, role, index, placement)


def requests(where: Engine, plan: Plan, task: tuple[str, int] | None = None) -> tuple[EngineRequest, ...]:
    """The requests that would be made to the engine. CannotRun: the engine cannot run the plan."""
    return where.requests(plan, Task(*task) if task else None)


def engine(name: str, **options: Any) -> Engine:
    """The engine with this name and its options; options that are None or empty are ignored. InputError: there is no
    such engine or option. CannotRun: the engine is part of a package and cannot be used."""
    return make(name, **options)


def jobs_dir() -> Path:
    """The folder of this user's run folders."""
    return folder.jobs_dir(os.environ)


def submit(prepared: PreparedJob, where: Engine, progress: Callable[[int, int], None] | None = None) -> Submitted:
    """Check that the plan can run, and create its run folder with a copy of the code, without starting anything. The
    lock file is updated with accepted changes.

    `progress` is called with the bytes copied so far and in total. CannotRun: a resource is missing; nothing is left
    behind.
    """
    where.check(prepared.plan)
    folder.sweep(jobs_dir())
    if prepared.locked.old not in (None, prepared.locked.new):
        lock_file.save(prepared.locked.path, prepared.locked.new)
    run = folder.create(jobs_dir(), prepared.plan.job)
    controller = None
    try:
        with controller_lock.hold(run.lock) as held:
            controller = Controller(run, held, where.name)  # started early, so that it is ready when the folder is
        notes = _fill(run, prepared, where, progress)
    except BaseException:
        if controller:
            controller.abandon()
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return Submitted(run, prepared, where, controller, notes)


def _fill(
    run: Run, prepared: PreparedJob, where: Engine, progress: Callable[[int, int], None] | None
) -> tuple[str, ...]:
    plan, source = prepared.plan, prepared.job.source
    notes = []
    for name, path in plan.code.items():
        copied = code_snapshot.copy(Path(path), run.code / name, progress=progress)
        notes += [
            f"{path}/{link} is a link that leads out of the code: it works only on this machine"
            for link in copied.outside
        ]
        if copied.gone:
            more = f" and {len(copied.gone) - 3} more" if len(copied.gone) > 3 else ""
            names = ", ".join(copied.gone[:3]) + more
            notes.append(f"{path}: deleted during the copy, so missing in it: {names}")
    _write_rules(run, plan)
    secrets = tuple(prepared.secrets.texts.values())
    write_atomic(run.job_file, mask_secrets(source.text, given=secrets).encode())
    write_json(run.plan_file, masked_values(plan.to_json(), secrets))
    disk_reserve.make(run.path)
    with EventLog(run.events) as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={role.name: role.instances for role in plan.roles})
    run.save(
        RunInfo(
            id=run.id,
            name=plan.job,
            user=plan.user,
            engine=where.name,
            created=folder.creation_time(jobs_dir()),
            version=__version__,
            source=source.file if source.file == STDIN else os.path.abspath(source.file),
            secrets_dir=where.secrets_dir(run) if prepared.secrets.texts else None,
            parameters=masked_values(dict(prepared.parameters), secrets),
        )
    )
    return tuple(notes)


def _write_rules(run: Run, plan: Plan) -> None:
    """Write the job's rule files in the form that the runtime reads. InputError: one is invalid, or there are several
    exit specs."""
    if spec := exit_spec(plan.rules):
        write_json(run.exit_spec, exitspec.to_json(spec))
    for number, path in enumerate(plan.rules):
        if not is_exit_spec(path):
            write_json(run.rule_file(number), rule_files.compiled(Path(path)))


def exit_spec(files: Sequence[str]) -> ExitSpec | None:
    """The exit spec among rule files; None if there is none. InputError: it is invalid, or there are several."""
    specs = [path for path in files if is_exit_spec(path)]
    if len(specs) > 1:
        raise InputError(f"only one exit spec can be used, not {' and '.join(specs)}")
    return exitspec.load(specs[0]) if specs else None


def start(submitted: Submitted) -> None:
    """Let the controller run the job and write its report. It continues even if this process ends."""
    where, prepared = submitted.where, submitted.prepared
    submitted.controller.order(where.name, where.options, to_lossless(prepared.plan), prepared.secrets)


def withdraw(submitted: Submitted) -> None:
    """Remove all traces of the job, instead of `start`."""
    submitted.controller.abandon()
    shutil.rmtree(submitted.run.path, ignore_errors=True)


def find(name: str) -> Run:
    """The run with this id, a unique prefix of its id, or a job's name, which means its newest run."""
    return folder.find(jobs_dir(), name)


def wait(run: Run, deadline: float | None = None) -> JobStatus:
    """Wait until the run has ended, with its report written, or is lost, and return its status. At `deadline` (a value
    of time.monotonic) return the current status."""
    while True:
        over = not controller_lock.is_held(run.lock)
        now = status.read(run)
        if over or (deadline and time.monotonic() > deadline):
            return now
        time.sleep(0.2)


def stop(run: Run, kill: bool = False) -> tuple[str, ...]:
    """Request a stop (`kill`: without grace) and return without waiting; if the controller is lost, end the processes
    that it left. Does nothing to a run that has ended. Returns notes for the user. FileNotFoundError: the run has been
    removed."""
    return _engine_of(run).stop(run, kill)


def suspended(run: Run) -> int | None:
    """The pid of the run's controller if it is suspended, otherwise None."""
    return _engine_of(run).suspended(run)


def remove(run: Run) -> None:
    """Delete the folder of a run that has ended, with all its logs. Concurrent calls are safe. InputError: it is still
    running; CannotRun: it does not end."""
    with suppress(FileNotFoundError):  # another process has removed it
        _end_if_lost(run)
        with EventLog(run.events):  # keeps others from ending or removing it
            _engine_of(run).forget(run)
            folder.delete(run)


def _end_if_lost(run: Run) -> None:
    where, state = _engine_of(run), status.read(run).state
    if state in WITHOUT_END:
        where.stop(run, kill=False)
    elif state not in FINAL:
        raise InputError(f"{run.id} is {state}: stop it first (kedge stop {run.id})")
    now = wait(run, time.monotonic() + _ENDING_SEC)  # for its report
    if controller_lock.is_held(run.lock) or now.state == State.LOST:
        os.lstat(run.run_file)
        raise CannotRun(
            f"{run.id} has not ended{controller_lock.shown(controller_lock.owner(run.lock))}, so it is not removed"
        )


def _engine_of(run: Run) -> Engine:
    """The engine of a run. FileNotFoundError: the run has been removed; InputError: this kedge has no such engine."""
    os.lstat(run.run_file)
    info = run.info()
    name = info.engine
    if info.damage:  # guess the engine from its own file
        name = "container" if os.path.lexists(run.path / ENGINE_FILE) else "local"
    try:
        return engine(name)
    except UnknownEngine as error:
        raise InputError(f"{run.id} uses the engine {name!r}, which is not installed here") from error


def all_runs() -> list[tuple[Run, RunInfo, JobStatus]]:
    """Every run of this user with its status, newest first."""
    found = [(run, info, status.read(run)) for run, info in folder.listed(jobs_dir())]
    return [each for each in found if os.path.lexists(each[0].path)]  # without runs that were removed meanwhile


def user_name() -> str:
    """The user's name; the uid of a user without a name, as in many containers."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13, OSError since
        return str(os.getuid())
    return name.encode(errors="replace").decode()


def run_ids() -> list[str]:
    """The ids of all runs, newest first."""
    return [info.id for _, info in folder.listed(jobs_dir())]
