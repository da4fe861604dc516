"""Copies files between this machine and the folders of a run.

`kedge cp` names a folder of a run as JOB/TASK:PATH, or JOB:PATH for the folder of the job. The present engines keep
these folders below the run folder on this machine; an engine that keeps them elsewhere has to list and stream them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kedge.beneath import LOOK
from kedge.contract import JOB_DIR, OUTPUT_DIR
from kedge.errors import CannotRun, InputError
from kedge.jobs import runs, task_names
from kedge.runs import copies, outputs, status
from kedge.runs.atomic_files import disk_errors
from kedge.runs.folder import Run, parse_task
from kedge.runs.inner_links import open_inside, roots
from kedge.runs.outputs import OutputFolder
from kedge.runs.transfer import FileTransfer, Progress
from kedge.states import State
from kedge.terminal_text import one_line
from kedge.untrusted import FOLDER, open_folder

_PLACE = re.compile(r"(?P<job>[^/:~.][^/:]*)(?:/(?P<task>\w+[:-]\d+))?:(?P<path>.*)", re.DOTALL)
_ATTEMPT = re.compile(r"(\d+)(?:\.(\d+))?", re.ASCII)
_READ = os.O_RDONLY | os.O_NONBLOCK


class Place(NamedTuple):
    """A path in the folder of a task, or in that of the job (`task` is None then)."""

    job: str
    task: str | None
    path: str

    def __str__(self) -> str:
        return f"{self.job}{f'/{self.task}' if self.task else ''}:{self.path}"


class Selection(NamedTuple):
    """Which attempt of a task (`2`: the second of the job, `2.1`: the first of the task in it; None: the last), and
    which of its folders."""

    attempt: str | None = None
    folder: str = OUTPUT_DIR


def parse_place(text: str) -> Place | None:
    """The place of a run that a text names: JOB/TASK:PATH or JOB:PATH. None for a path of this machine, which is one if
    it has no colon, or a slash before it, or begins with `.`, `~` or `/`."""
    found = _PLACE.fullmatch(text)
    return Place(**found.groupdict()) if found else None


def copy_out(place: Place, target: str, selection: Selection, progress: Progress) -> FileTransfer:
    """Copy a file or folder out of a run, into `target` if that is a folder. The whole folder of a task gets the name
    of the task. InputError, CannotRun, DiskFull."""
    run = runs.find(place.job)
    wanted = folder_of(run, place.task, selection)
    runs.fetch_outputs(run, wanted.path, place.path)
    known = roots(run, wanted)
    with _folder(run, wanted) as top, _opened(top, place, known) as source:
        at = _path_in(top, source)
        copy = FileTransfer(shared=False, roots=[f"{root}/{at}".rstrip("/") for root in known], progress=progress)
        parent, name = _local_target(target, _own_name(place))
        with _copy_errors(os.path.join(parent, name)):
            folder = _open_local(parent)
            try:
                copy.entry(source, folder, name, str(place).removesuffix("/"))
            finally:
                os.close(folder)
    return copy


def copy_in(path: str, place: Place, selection: Selection, progress: Progress) -> FileTransfer:
    """Copy a file or folder of this machine into a run, into the place if that is a folder. InputError, CannotRun,
    DiskFull."""
    run = runs.find(place.job)
    copy = FileTransfer(shared=True, progress=progress)
    if copies.is_copy(run):
        copy.files, copy.bytes = _copy_into_pod(run, path, place, selection, progress)
        return copy
    try:
        source = os.open(path, _READ | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        wanted = folder_of(run, place.task, selection)
        with _folder(run, wanted) as top, _copy_errors(str(place)):
            folder, name = _target_in(top, place, os.path.basename(os.path.abspath(path)), roots(run, wanted))
            try:
                copy.entry(source, folder, name, path)
            finally:
                os.close(folder)
    finally:
        os.close(source)
    if place.task and not _is_running(run, place.task):
        copy.notes.append(f"{place.task} of {run.id} is not running")
    return copy


def _copy_into_pod(run: Run, path: str, place: Place, selection: Selection, progress: Progress) -> tuple[int, int]:
    """Copy into a folder of a running task of a cluster; into that of the job through any such task."""
    if selection.attempt is not None or (place.task and selection.folder != OUTPUT_DIR):
        raise InputError("here files can be copied only into the output folder of the latest attempt of a task")
    running = [(task.role, task.index) for task in status.read(run).tasks if task.state == State.RUNNING]
    wanted = [task_names.find_one(run, place.task)] if place.task else running[:1]
    if not wanted or wanted[0] not in running:
        what = f"{place.task} of {run.id} is not running" if place.task else f"no task of {run.id} is running"
        raise InputError(f"{what}, so nothing can be copied into it")
    return copies.copy_in(run, wanted[0], path, OUTPUT_DIR if place.task else JOB_DIR, place.path, progress)


def folder_of(run: Run, task: str | None, selection: Selection) -> OutputFolder:
    """The folder of a task or, without a task, of the job. InputError if there is no such task or attempt."""
    if task is None:
        return outputs.job_folder()
    role, index = task_names.find_one(run, task)
    numbers = _attempt(selection.attempt)
    found = [
        (attempt, each)
        for attempt in run.attempts()
        for each in run.tasks(attempt)
        if (each.role, each.task_index) == (role, index)
        and (not numbers or numbers[0] == attempt + 1)
        and (len(numbers) < 2 or numbers[1] == each.task_attempt + 1)
    ]
    if not found:
        which = f"no attempt {selection.attempt} of" if numbers else "not started"
        raise InputError(f"{run.id} has {which} {role}:{index}" + ("" if numbers else " yet"))
    attempt, last = found[-1]
    return outputs.task_folder(run, last, attempt, selection.folder)


def _attempt(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    if found := _ATTEMPT.fullmatch(text):
        return tuple(int(number) for number in found.groups() if number)
    raise InputError(f"{text!r} is not an attempt: write 2 for the second of the job, 2.1 for a task's first in it")


@contextmanager
def _folder(run: Run, wanted: OutputFolder) -> Iterator[int]:
    """A descriptor of a folder of a run."""
    try:
        fd = open_folder(run.path, wanted.path)
    except OSError as error:
        later = "; what a task there has written comes when it ends" if copies.is_copy(run) else ""
        raise InputError(f"{wanted.name} of {run.id} has no folder {os.path.basename(wanted.path)}{later}") from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _opened(top: int, place: Place, known: Sequence[str]) -> Iterator[int]:
    try:
        found = open_inside(top, place.path, LOOK, known)  # opening a device would act on it
        try:
            if stat.S_IFMT(os.fstat(found).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
                raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
            fd = os.open(f"/proc/self/fd/{found}", _READ | os.O_CLOEXEC) if LOOK != _READ else os.dup(found)
        finally:
            os.close(found)
    except OSError as error:
        raise _unusable(place, error) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _path_in(top: int, source: int) -> str:
    """Where an open entry is below an open folder, without links; empty for the folder itself, or if unknown."""
    try:
        above, path = (os.readlink(f"/proc/self/fd/{fd}") for fd in (top, source))
    except OSError:  # not on Linux
        return ""
    return path[len(above) + 1 :] if path.startswith(f"{above}/") else ""


@contextmanager
def _copy_errors(target: str) -> Iterator[None]:
    """DiskFull or CannotRun for an error of the system."""
    try:
        with disk_errors(target):
            yield
    except OSError as error:
        raise CannotRun(f"{one_line(target)}: cannot be written: {error.strerror}") from error


def _unusable(place: Place, error: OSError) -> InputError:
    """Why a path of a run cannot be opened."""
    shown = one_line(str(place))
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return InputError(f"{shown} leads out of the folder that it is relative to")
    if error.errno == errno.ENXIO:
        return InputError(f"{shown} is neither a file nor a folder")
    return InputError(f"{shown}: {error.strerror}; kedge outputs {place.job} lists what there is")


def _own_name(place: Place) -> str:
    """The name that a copy gets in a folder."""
    name = os.path.basename(os.path.normpath(place.path)) if place.path else ""
    if name not in ("", ".", "..", "/"):
        return name
    return place.task.replace(":", "-") if place.task else place.job


def _local_target(target: str, name: str) -> tuple[str, str]:
    """The folder that the copy is put into, and its name there, as cp(1) chooses them."""
    if os.path.isdir(target):
        return target, name
    if target.endswith("/"):
        raise InputError(f"{target}: there is no such folder")
    found = os.path.realpath(target)  # through a link the file behind it is replaced
    return os.path.dirname(found), os.path.basename(found)


def _open_local(folder: str) -> int:
    try:
        return os.open(folder, FOLDER)
    except OSError as error:
        raise InputError(f"{folder}: cannot be opened: {error.strerror}") from error


def _target_in(top: int, place: Place, name: str, known: Sequence[str]) -> tuple[int, str]:
    """An open folder of the run, and the name that a copy gets there, as cp(1) chooses them."""
    try:
        return open_inside(top, place.path, FOLDER, known), name
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR) or place.path.endswith("/"):
            raise _unusable(place, error) from error
    parent, _, last = place.path.rpartition("/")
    if last in (".", ".."):
        raise InputError(f"{one_line(str(place))}: there is no such folder")
    try:
        return open_inside(top, parent, FOLDER, known), last
    except OSError as error:
        raise _unusable(place, error) from error


def _is_running(run: Run, task: str) -> bool:
    wanted = parse_task(task)
    return any((t.role, t.index) == wanted and t.state == State.RUNNING for t in status.read(run).tasks)
