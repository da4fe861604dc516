"""Gives a prepared job a run folder and a process that runs it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

from kedge import __version__
from kedge.contract import JOB_DIR
from kedge.controller.client import Controller, LoadingController
from kedge.controller.remote import RemoteController
from kedge.engines.base import Engine
from kedge.errors import CannotRun
from kedge.file_copies import shares_blocks
from kedge.jobs import record
from kedge.jobs.preparation import PreparedJob
from kedge.jobs.runs import jobs_dir
from kedge.own_files import clear
from kedge.plan.lossless import to_lossless
from kedge.plan.model import Plan
from kedge.quick_dataclasses import dataclass
from kedge.resolve import lock_file
from kedge.resolve.model import Secrets
from kedge.runs import code_snapshot, controller_lock, copies, disk_reserve, folder
from kedge.runs.atomic_files import write_atomic, write_json
from kedge.runs.events import EventLog
from kedge.runs.folder import Run, RunInfo
from kedge.runs.job_events import JobEvent
from kedge.settings.table import CODE_LIMIT
from kedge.settings.values import DEFAULT, SettingValue
from kedge.spec.files import STDIN
from kedge.spec.message_text import printable
from kedge.spec.redact import mask_secrets, masked_values

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job with its run folder, and the process that will be its controller. Call `start` or `withdraw` next.

    `secrets` are those of the job with the keys of its ssh; `notes` are for the submitter, about the copy of the code.
    """

    run: Run
    prepared: PreparedJob
    where: Engine
    controller: Controller | RemoteController
    secrets: Secrets = field(repr=False)
    notes: tuple[str, ...] = ()


def submit(
    prepared: PreparedJob,
    where: Engine,
    progress: Callable[[int, int], None] | None = None,
    loading: LoadingController | None = None,
) -> Submitted:
    """Check that the plan can run, and create its run folder with a copy of the code, without starting anything. The
    lock file is updated with accepted changes.

    `progress` is called with the bytes copied so far and in total. `loading` becomes the run's controller. CannotRun: a
    resource is missing; nothing is left behind, except folders of storages that the site lets kedge make.
    """
    where.check(prepared.plan)
    if any(mount.folder for mount in prepared.plan.mounts):
        storages = importlib.import_module("kedge.jobs.storages")  # few jobs have storages
        known = storages.Storages(prepared.settings, prepared.inputs.storages)
        known.make_folders(prepared.plan.mounts, prepared.plan.job)
    secrets = _with_keys(prepared)
    folder.sweep(jobs_dir())
    if prepared.locked.path and prepared.locked.old not in (None, prepared.locked.new):
        lock_file.save(prepared.locked.path, prepared.locked.new)
    run = folder.create(jobs_dir(), prepared.plan.job)
    controller = None
    try:
        controller = _controller(run, prepared.plan, where, loading)  # early: it is ready when the folder is
        notes = _fill(run, prepared, where, progress)
    except BaseException:
        if controller:
            controller.abandon()
        _discard(run)
        raise
    return Submitted(run, prepared, where, controller, secrets, notes)


def _controller(
    run: Run, plan: Plan, where: Engine, loading: LoadingController | None
) -> Controller | RemoteController:
    """The controller of a run, which waits for its orders and holds the run's lock."""
    held = controller_lock.hold(run.lock)
    try:
        if not where.in_cluster:
            return Controller(run, held, where.name, loading)
        keys = importlib.import_module("kedge.jobs.link_keys").made()  # slow to import, and only for clusters
        return RemoteController(run, held, where, plan, keys)
    except BaseException:
        held.close()
        raise


def _with_keys(prepared: PreparedJob) -> Secrets:
    """The job's secrets, and with them the keys of its ssh, if it has any."""
    if not prepared.plan.has_ssh:
        return prepared.secrets
    keys = importlib.import_module("kedge.jobs.ssh_keys").made()  # slow to import and rarely needed
    return replace(prepared.secrets, texts={**prepared.secrets.texts, **keys})


def _fill(
    run: Run, prepared: PreparedJob, where: Engine, progress: Callable[[int, int], None] | None
) -> tuple[str, ...]:
    """Write the run folder. Returns notes for the user."""
    plan, source = prepared.plan, prepared.job.source
    limit = prepared.settings.get(CODE_LIMIT)
    copied = {name: _copy_code(run.code / name, path, limit, progress) for name, path in plan.code.items()}
    notes = [note for name, path in plan.code.items() for note in _notes_of_copy(path, copied[name])]
    notes += _space_for_copies(run, plan, {name: each.bytes for name, each in copied.items()})
    if plan.rules:
        importlib.import_module("kedge.jobs.rules").write(run, plan)  # slow to import and rarely needed
    secrets = tuple(prepared.secrets.texts.values())
    record.write(run, prepared, secrets)
    write_atomic(run.job_file, mask_secrets(source.text, given=secrets).encode(), followed=True)
    write_json(run.plan_file, masked_values(plan.to_json(), secrets), followed=True)
    run.job_dir.mkdir(mode=0o700)
    if prepared.inputs.record and (job_dir := prepared.inputs.record.job_dir) and not copies.has_copies(where.name):
        _fetch_job_dir(Run(Path(job_dir).parent))
        notes += _copy_job_dir(Path(job_dir), run.job_dir, progress)
    disk_reserve.make(run.path)
    with EventLog(run.events) as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={role.name: role.instances for role in plan.roles})
    run.save(_info(run, prepared, where))
    return tuple(notes)


def _info(run: Run, prepared: PreparedJob, where: Engine) -> RunInfo:
    """The description of the run that is kept with it."""
    source, secrets = prepared.job.source, tuple(prepared.secrets.texts.values())
    old = prepared.inputs.record
    return RunInfo(
        id=run.id,
        name=prepared.plan.job,
        user=prepared.plan.user,
        engine=where.name,
        created=folder.creation_time(jobs_dir()),
        version=__version__,
        source=STDIN if os.path.basename(source.file) == STDIN else os.path.abspath(source.file),
        secrets_dir=where.secrets_dir(run) if secrets or prepared.plan.has_ssh else None,
        parameters=masked_values(dict(prepared.parameters), secrets),
        folder=os.path.dirname(os.path.abspath(source.file)),
        options=masked_values(record.options(prepared.inputs, prepared, where.options).to_json(), secrets),
        rerun_of=old.run if old else None,
        with_job_dir=bool(old and old.job_dir),
    )


def _copy_code(
    target: Path, path: str, limit: SettingValue, progress: Callable[[int, int], None] | None
) -> code_snapshot.Copied:
    """Copy a folder of code of at most `limit` MiB into the run folder."""
    set_by = "" if limit.origin == DEFAULT else f"{CODE_LIMIT.key} of {limit.origin}"
    return code_snapshot.copy(Path(path), target, limit=limit.value << 20, set_by=set_by, progress=progress)


def _notes_of_copy(path: str, copied: code_snapshot.Copied) -> Iterator[str]:
    for link in copied.outside:
        yield f"{path}/{link} is a link that leads out of the code: it works only on this machine"
    if copied.gone:
        more = f" and {len(copied.gone) - 3} more" if len(copied.gone) > 3 else ""
        yield f"{path}: deleted during the copy, so missing in it: {', '.join(copied.gone[:3])}{more}"


def _space_for_copies(run: Run, plan: Plan, sizes: Mapping[str, int]) -> Iterator[str]:
    """A note if the disk has too little space for the tasks' own copies of the code."""
    needed = 0 if plan.shares_code else sum(role.instances * sizes[role.code] for role in plan.roles if role.code)
    found = os.statvfs(run.path)
    free = found.f_bavail * found.f_frsize
    if needed > free and not shares_blocks(run.path):
        yield (
            f"each task gets its own copy of the code, {needed / _MIB:,.1f} MiB in all, and only "
            f"{free / _MIB:,.1f} MiB are free in {run.path.parent}; with extras.kedge.code: readOnly they share one"
        )


def _fetch_job_dir(run: Run) -> None:
    """Bring the job folder of an earlier run here, if that is in a cluster."""
    if why := copies.fetch_files(run, JOB_DIR, ""):
        raise CannotRun(f"--with-job-dir: the job folder of {run.id} cannot be fetched: {why}")


def _copy_job_dir(source: Path, target: Path, progress: Callable[[int, int], None] | None) -> Iterator[str]:
    """Copy the job folder of an earlier run. Yields notes for the user."""
    copier = importlib.import_module("kedge.runs.tree_copy")  # few runs begin with a copy
    if left_out := copier.copy(source.parent, source.name, target, progress):
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        named = ", ".join(map(printable, left_out[:3]))
        yield f"not copied from the job folder (links that lead out of it, pipes and the like): {named}{more}"


def start(submitted: Submitted, say: Callable[[str], object] = lambda text: None) -> None:
    """Let the controller run the job and write its report. It continues even if this process ends. `say` tells the user
    what takes long. CannotRun: a cluster refuses the job, of which nothing is left then."""
    where, prepared = submitted.where, submitted.prepared
    if isinstance(submitted.controller, RemoteController):
        submitted.controller.say = say
    try:
        submitted.controller.order(where.name, where.options, to_lossless(prepared.plan), submitted.secrets)
    except BaseException:
        if where.in_cluster:
            withdraw(submitted)
        raise


def withdraw(submitted: Submitted) -> None:
    """Remove all traces of the job, instead of `start`."""
    submitted.controller.abandon()
    _discard(submitted.run)


def _discard(run: Run) -> None:
    with suppress(OSError):  # what cannot be deleted is swept away with the next submission
        clear(run.path)
