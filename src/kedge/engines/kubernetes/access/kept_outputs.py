"""The outputs of a run where its driver has no copy of them: on the site's volume, and in the pods of running tasks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

from kedge.contract import JOB_DIR, OUTPUT_DIR
from kedge.engines.base import Task, TaskAttempt
from kedge.engines.kubernetes.access import pod_files, reader_pod, submitted
from kedge.engines.kubernetes.access.exec import pod_of
from kedge.engines.kubernetes.access.file_source import BUSYBOX, FileSource
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.objects import driver_job, pod_paths, task_volumes
from kedge.engines.kubernetes.objects.task_pod import APP
from kedge.errors import CannotRun
from kedge.own_files import clear
from kedge.runs import output_lists, status
from kedge.runs.folder import Run
from kedge.runs.output_lists import OutputFile
from kedge.states import State
from kedge.untrusted import FOLDER

_AT_ONCE = 8
_BELOW = FOLDER | os.O_NOFOLLOW
Lists = dict[str, list[OutputFile]]


def claim(job: Mapping[str, Any] | None) -> str:
    """The claim with the outputs of a run, from its driver's Job; empty if it has none, or there is no Job."""
    volume = reader_pod.volume(job, driver_job.OUTPUTS) if job else {}
    return str(volume.get("persistentVolumeClaim", {}).get("claimName", ""))


def list_on_claim(found: SubmittedRun, job: dict[str, Any]) -> None:
    """Note what is on the site's volume. CannotRun."""
    lists: Lists = {}
    with _on_claim(found, job) as sources:
        for file in _first(source.files for source in sources):
            folder, path = _split(file.path)
            if path:
                lists.setdefault(folder, []).append(file._replace(path=path))
    output_lists.write(found.run, lists)


def fetch_on_claim(found: SubmittedRun, job: dict[str, Any], path: str) -> None:
    """Copy what is at a path of the run folder (empty: all outputs), and is on the site's volume. CannotRun."""
    with _on_claim(found, job) as sources:
        _first(lambda each=source: _replace(found.run, each, "", path) for source in sources)
    output_lists.remove(found.run, path)


def list_running(found: SubmittedRun) -> None:
    """Note what is in the pods of running tasks now."""
    attempts = _running(found.run)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        lists = pool.map(lambda attempt: _listed(_in_pod(found, attempt)), attempts)
        output_lists.write(found.run, dict(zip(map(_folder, attempts), lists, strict=True)))


def fetch_running(found: SubmittedRun, folder: str, path: str) -> bool:
    """Copy what is at a path in the folder of outputs of a task. False: it does not run. CannotRun."""
    attempt = next((each for each in _running(found.run) if _folder(each) == folder), None)
    if attempt is None:
        return False
    _replace(found.run, _in_pod(found, attempt), folder, path)
    output_lists.remove(found.run, folder if not path else f"{folder}/{path}")
    return True


def _running(run: Run) -> list[TaskAttempt]:
    now = status.read(run)
    return [
        TaskAttempt(Task(each.role, each.index), now.attempt, each.attempts - 1)
        for each in now.tasks
        if each.state == State.RUNNING
    ]


def _folder(attempt: TaskAttempt) -> str:
    """Where the outputs of a task attempt are in a run folder."""
    whole = task_volumes.outputs_folder("", attempt)
    return whole.partition("/")[2]


def _in_pod(found: SubmittedRun, attempt: TaskAttempt) -> FileSource:
    whose = f"the output folder of {attempt.task}"
    return FileSource(found.api, pod_of(found, attempt), APP, pod_files.BUSYBOX, pod_files.FOLDERS[OUTPUT_DIR], whose)


def _listed(source: FileSource) -> list[OutputFile]:
    try:
        return source.files()
    except CannotRun:  # it has just ended: what it has sent is copied
        return []


@contextmanager
def _on_claim(found: SubmittedRun, job: dict[str, Any]) -> Iterator[Iterator[FileSource]]:
    """A context with the pods that can read the site's volume: the driver, if it runs, and one that may read more."""
    top = f"{pod_paths.OUTPUTS_VOLUME}/{task_volumes.kept_folder(found.names.name)}"
    whose = f"the claim {claim(job)}"

    def sources() -> Generator[FileSource]:
        pod = found.driver()
        if pod is not None and submitted.is_running(pod):
            yield FileSource(found.api, pod["metadata"]["name"], driver_job.CONTAINER, BUSYBOX, top, whose)
        if (anchor := found.anchor()) is not None:
            with reader_pod.started(found, job, anchor, (driver_job.OUTPUTS,)) as name:
                yield FileSource(found.api, name, driver_job.CONTAINER, BUSYBOX, top, whose)

    with closing(sources()) as made:
        yield made


def _first(tries: Iterable[Any]) -> Any:
    """The result of the first try that works; nothing is tried after it. CannotRun of the last one."""
    failure = CannotRun("the run is not in the namespace any more")
    for each in tries:
        try:
            return each()
        except CannotRun as error:
            failure = error
    raise failure


def _split(path: str) -> tuple[str, str]:
    """The folder of a run that a file is in, and its path there."""
    parts = path.split("/")
    count = 1 if parts[0] == JOB_DIR else 3
    return "/".join(parts[:count]), "/".join(parts[count:])


def _replace(run: Run, source: FileSource, folder: str, path: str) -> None:
    """Copy what is at a path of a source to the same path in a folder of the run folder, in the place of what is
    there. CannotRun."""
    run.cluster.make()
    try:
        with tempfile.TemporaryDirectory(dir=run.cluster.folder, prefix="outputs-") as made:
            source.fetch(path, made)
            for inner in [path] if path else sorted(os.listdir(made)):
                if os.path.lexists(f"{made}/{inner}"):
                    _move(run, f"{made}/{inner}", f"{folder}/{inner}".strip("/"))
    except OSError as error:
        raise CannotRun(f"the copy of the outputs cannot be written: {error.strerror}: {error.filename}") from error


def _move(run: Run, source: str, path: str) -> None:
    """Move a file or folder into the run folder, through no link there. A folder that has others of the run is kept."""
    *above, name = path.split("/")
    if os.path.isdir(source) and path.count("/") < 2 and path != JOB_DIR:
        for inner in sorted(os.listdir(source)):
            _move(run, f"{source}/{inner}", f"{path}/{inner}")
        return
    at = os.open(run.path, FOLDER)
    try:
        for part in above:
            with suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=at)
            outer, at = at, os.open(part, _BELOW, dir_fd=at)
            os.close(outer)
        clear(run.path / path)
        os.rename(source, name, dst_dir_fd=at)
    finally:
        os.close(at)
