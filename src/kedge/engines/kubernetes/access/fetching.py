"""Fetches what is new of a run from its cluster into the run folder on this machine: once, or until the end of the run.

Registered in `kedge.lazy_modules.FETCH`: see kedge.runs.copies.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import posixpath
import tarfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from kedge.contract import OUTPUT_DIR
from kedge.engines.base import Task, TaskAttempt
from kedge.engines.kubernetes.access import copy_state, reader_pod, submitted
from kedge.engines.kubernetes.access.copy_rules import CopyOrder
from kedge.engines.kubernetes.access.copy_session import CopySession, Synced
from kedge.engines.kubernetes.access.copy_state import CopyLock
from kedge.engines.kubernetes.access.exec_copy_stream import ExecCopyStream
from kedge.engines.kubernetes.access.local_copy import OUTPUTS, RECORDS, LocalCopy
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.objects import driver_job, labels, pod_paths
from kedge.errors import CannotRun
from kedge.runs import output_lists
from kedge.runs.folder import Run
from kedge.runs.liveness import has_end
from kedge.runs.output_lists import OUTPUTS_CLAIM

_BUSY_SEC = 5.0  # how long another process may need for what it fetches
_AGAIN_SEC = 1.0  # between two tries to reach a run
_SOON_SEC, _START_SEC = 0.3, 60.0  # the same while it starts
_MOST_SYNCED = 200  # files
_SAVE_SEC = 5.0  # between two records of how new the copy is
_LARGEST_SECRETS = 16 << 20  # bytes
ALL_OUTPUTS = ("",)


def import_runs(options: Mapping[str, Any], jobs: Path, wanted: str | None) -> None:
    """Make folders for runs that other machines have submitted (access.importing). CannotRun."""
    importlib.import_module("kedge.engines.kubernetes.access.importing").import_runs(options, jobs, wanted)


class NotServed(CannotRun):
    """No pod has the run folder now."""


def fetch(run: Run, *, logs: bool = False, outputs: tuple[str, ...] = (), patience_sec: float = 600.0) -> str:
    """Fetch what is new: the records of the run; its logs, if they are wanted; and of its outputs those below these
    folders. Returns why that was not possible; empty if it was."""
    try:
        kept = bool(outputs) and _fetch_kept(run, outputs)
        _fetch_copy(run, logs, () if kept else outputs, patience_sec)
    except (CannotRun, OSError) as error:
        return str(error)
    return ""


def _fetch_copy(run: Run, logs: bool, outputs: tuple[str, ...], patience_sec: float = 600.0) -> None:
    """Fetch what is new in the run folder of the driver."""
    state = copy_state.read(run.cluster)
    if not (state.ended and (state.logs or not logs)):
        _fetch_part(run, RECORDS, CopyOrder(logs=logs), patience_sec)
    if outputs and not (state.ended and state.outputs):
        _fetch_part(run, OUTPUTS, CopyOrder(records=False, logs=False, outputs=outputs), patience_sec)
        if outputs == ALL_OUTPUTS:
            output_lists.remove(run, "")  # what running tasks had


def _fetch_kept(run: Run, outputs: tuple[str, ...]) -> bool:
    """Fetch outputs from the site's volume. False: they are not there."""
    found = SubmittedRun(run)
    job = _keeping(found)
    for each in outputs if job else ():
        _kept().fetch_on_claim(found, job, each and f"{each}/{OUTPUT_DIR}")
    return job is not None


def _keeping(found: SubmittedRun) -> dict[str, Any] | None:
    """The driver's Job, if the outputs of the run are on the site's volume."""
    if found.facts.get(OUTPUTS_CLAIM) == "":
        return None
    job = found.job()
    return job if job and _kept().claim(job) else None


def _kept() -> Any:
    return importlib.import_module("kedge.engines.kubernetes.access.kept_outputs")


def list_outputs(run: Run) -> str:
    """Bring what is needed to list the outputs of a run: the files themselves, or what is known of them where they stay
    for now, which is on the site's volume and in running tasks. Returns why that was not possible; empty if it was."""
    try:
        found = SubmittedRun(run)
        if job := _keeping(found):
            _kept().list_on_claim(found, job)
            return ""
        _fetch_copy(run, False, ALL_OUTPUTS)
        _kept().list_running(found)
    except (CannotRun, OSError) as error:
        return str(error)
    return ""


def fetch_files(run: Run, folder: str, path: str) -> str:
    """Bring a file or folder out of a folder of a run, such as `attempt-0/worker-0/output`, from where it is now.
    Returns why that was not possible; empty if it was."""
    inside = posixpath.normpath(path).removeprefix(".") if path else ""
    if path.startswith("/") or inside.startswith(("/", "./")):
        return f"{path} leads out of the folder that it is relative to"
    try:
        found = SubmittedRun(run)
        if job := _keeping(found):
            _kept().fetch_on_claim(found, job, f"{folder}/{inside}".rstrip("/"))
        elif not _kept().fetch_running(found, folder, inside):
            _fetch_copy(run, False, (folder.removesuffix(f"/{OUTPUT_DIR}"),))
    except (CannotRun, OSError) as error:
        return str(error)
    return ""


def _fetch_part(run: Run, part: str, order: CopyOrder, patience_sec: float) -> None:
    had_ended = copy_state.read(run.cluster).ended
    with copy_state.taken(run.cluster, part, min(patience_sec, _BUSY_SEC)) as lock:
        if lock is None:
            return  # another process has fetched it
        with _Copying(run, part, order) as copying:
            if (synced := copying.session.next(patience_sec)) is None:
                raise CannotRun(f"what is new of {run.id} has not come within {patience_sec:g} s")
        lock.news()
        _save(run, order, synced._replace(ended=synced.ended or (had_ended and part == OUTPUTS)))


def _save(run: Run, order: CopyOrder, synced: Synced) -> None:
    """Keep what the copy has now."""
    old, ended = copy_state.read(run.cluster), synced.ended
    when = time.time() if order.records else old.when
    if ended and not synced.outputs:
        output_lists.remove(run, "")  # what running tasks had
    all_outputs = old.outputs or (ended and (order.outputs == ALL_OUTPUTS or not synced.outputs))
    new = old._replace(when=when, ended=old.ended or ended, logs=old.logs or (ended and order.logs))
    copy_state.write(run.cluster, new._replace(outputs=all_outputs))


class _Copying:
    """A conversation with the pod that has the folder of a run, and the part of the copy that it is about."""

    def __init__(self, run: Run, part: str, order: CopyOrder) -> None:
        self.session = CopySession(stream(SubmittedRun(run)))
        try:
            self._copy = LocalCopy(run, part)
            try:
                self.session.start(self._copy, order)
            except BaseException:
                self._copy.close()
                raise
        except BaseException:
            self.session.close()
            raise

    def __enter__(self) -> _Copying:
        return self

    def __exit__(self, *of_exception: object) -> None:
        with suppress(CannotRun, OSError):
            self.session.close()
        self._copy.close()


def tunnel(run: Run, role: str, index: int, host: str, port: int) -> str:
    """The shell command that connects its input and output to a port in the pod of a running task."""
    program = importlib.import_module("kedge.engines.kubernetes.access.tunnel")
    text: str = program.command(run, _last_attempt(run, role, index), host, port)
    return text


def copy_in(run: Run, role: str, index: int, source: str, folder: str, path: str, progress: Any) -> tuple[int, int]:
    """Copy a file or folder into a folder of a running task (access.pod_files). InputError; CannotRun."""
    files = importlib.import_module("kedge.engines.kubernetes.access.pod_files")
    copied: tuple[int, int] = files.copy_in(run, _last_attempt(run, role, index), source, folder, path, progress)
    return copied


def _last_attempt(run: Run, role: str, index: int) -> TaskAttempt:
    job_attempt = run.attempts()[-1]
    of_task = (each.task_attempt for each in run.tasks(job_attempt) if (each.role, each.task_index) == (role, index))
    return TaskAttempt(Task(role, index), job_attempt, max(of_task, default=0))


def fetch_secrets(run: Run) -> None:
    """Bring the values of a run's secrets, which its submitter has, to this machine. CannotRun; OSError, ValueError."""
    found = SubmittedRun(run)
    secret = found.api.get("Secret", found.names.driver_secret)
    if secret is None:
        raise CannotRun(f"{run.id} has no secrets in the cluster any more")
    packed = base64.b64decode(str((secret.get("data") or {}).get(posixpath.basename(pod_paths.SEED), "")))
    name = run.cluster.secrets.name
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        member = archive.extractfile(f"{run.cluster.folder.name}/{name}")
        data = member.read(_LARGEST_SECRETS) if member else b""
    run.cluster.write(run.cluster.secrets, json.loads(data))


def stream(found: SubmittedRun) -> ExecCopyStream:
    """A connection to a pod that has the run folder: the driver's or, after the end, one that reads its volume.
    NotServed."""
    argv = (*pod_paths.SERVE_COMMAND, f"{pod_paths.JOBS}/{found.run.id}")
    pod = found.driver()
    if pod is not None and submitted.is_running(pod):
        return ExecCopyStream(found.api, pod["metadata"]["name"], driver_job.CONTAINER, argv)
    anchor, job = found.anchor(), found.api.get("Job", found.names.driver)
    if anchor and _has_ended(anchor) and not reader_pod.is_possible(job):
        raise NotServed(
            f"the driver of {found.run.id} has ended, and what is not here of its logs and outputs has gone with it "
            "or is on the machine that followed it"
        )
    if anchor is None or job is None or not _has_ended(anchor):
        raise NotServed(f"the driver of {found.run.id} does not run now, so nothing new can be read")
    with ExitStack() as stack:
        name = stack.enter_context(reader_pod.started(found, job, anchor))
        return ExecCopyStream(found.api, name, driver_job.CONTAINER, argv, stack.pop_all())
    raise AssertionError("the stack swallows no error")


def _has_ended(anchor: dict[str, Any]) -> bool:
    return bool((anchor["metadata"].get("annotations") or {}).get(labels.ENDED))


def finish(run: Run) -> str:
    """Fetch all that an ended run has, where it would be lost with its driver, and let the driver go; but not from a
    machine other than the one that has submitted it, which may want it all, too. Returns why that was not possible;
    empty if it was, or is not needed."""
    state = copy_state.read(run.cluster)
    if state.let_go or not has_end(run):
        return ""
    try:
        _let_go(run, SubmittedRun(run))
    except (CannotRun, OSError) as error:
        return "" if state.is_complete else str(error)
    return ""


def _let_go(run: Run, found: SubmittedRun) -> None:
    pod = found.driver()
    if pod is not None and submitted.is_running(pod) and (job := _keeping(found)):
        with suppress(CannotRun, OSError):  # the summary says how they are listed
            _kept().list_on_claim(found, job)
    if is_needed := pod is not None and _is_only_copy(pod):
        _fetch_copy(run, True, ALL_OUTPUTS)
    if not (state := copy_state.read(run.cluster)).is_complete:
        return
    if is_needed and not found.facts.get("imported"):
        _sync(run)
        found.api.patch("ConfigMap", found.names.anchor, {"metadata": {"annotations": {labels.FETCHED: "true"}}})
    copy_state.write(run.cluster, state._replace(let_go=True))


def _sync(run: Run) -> None:
    """Bring the copy of a run to the disk: what other programs write there may be much."""
    found = [path for top in run.path.iterdir() if top.name != "code" for path in (top, *top.rglob("*"))]
    files = [path for path in found if not path.is_symlink() and (path.is_file() or path.is_dir())]
    if len(files) > _MOST_SYNCED:
        os.sync()
        return
    for path in [*files, run.path]:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _is_only_copy(pod: dict[str, object]) -> bool:
    """Whether a driver keeps the run folder on its node."""
    spec = pod.get("spec")
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    return any("emptyDir" in volume for volume in volumes or () if volume.get("name") == "run")


class Follower:
    """A thread that fetches the news of a run, or waits while another process does, until `close`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._over, self._first = threading.Event(), threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._follow, name="fetch", daemon=True)

    def start(self, patience_sec: float) -> None:
        """Start, and wait until all that was there is here, or nothing can be reached; at most so long."""
        self._thread.start()
        self._first.wait(patience_sec)

    def close(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._over.is_set() and not self._has_all():
                began, lock = time.time(), CopyLock(self._run.cluster, RECORDS)
                try:
                    if lock.take():
                        self._copy(lock)
                    else:
                        self._wait_for(lock, began)
                finally:
                    lock.close()
        finally:
            self._first.set()

    def _has_all(self) -> bool:
        state = copy_state.read(self._run.cluster)
        return state.ended and state.logs

    def _wait_for(self, lock: CopyLock, began: float) -> None:
        """Another process fetches."""
        if lock.has_news_since(began):
            self._first.set()
        self._over.wait(0.2)

    def _copy(self, lock: CopyLock) -> None:
        order = CopyOrder(follow=True)
        try:
            with _Copying(self._run, RECORDS, order) as copying:
                self._take(copying.session, lock, order)
        except (CannotRun, OSError):  # for now; what is said of the run by the API server tells the user
            self._first.set()
            self._over.wait(_SOON_SEC if time.monotonic() < self._began + _START_SEC else _AGAIN_SEC)

    def _take(self, session: CopySession, lock: CopyLock, order: CopyOrder) -> None:
        saved = 0.0
        while not self._over.is_set():
            synced = session.next(_AGAIN_SEC)
            if synced is None:
                continue
            lock.news()
            if synced.ended or time.monotonic() > saved + _SAVE_SEC:
                _save(self._run, order, synced)
                saved = time.monotonic()
            self._first.set()
            if synced.ended:
                return
