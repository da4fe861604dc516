"""Deletes everything of an ended run that takes space, except its outputs: logs, copies of the code, records of tasks.

The run stays listed, with its status, its report and what it was made of. Tasks could write all of its folders, so no
link in them is followed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from kedge.contract import OUTPUT_DIR
from kedge.errors import CannotRun
from kedge.own_files import clear, open_own
from kedge.runs.folder import Run, is_task_folder
from kedge.runs.outputs import entries
from kedge.untrusted import open_folder


def keep(run: Run) -> None:
    """Delete all but the outputs. CannotRun names what cannot be deleted; the outputs are complete then, too."""
    try:
        os.close(open_own(run.only_outputs, os.O_WRONLY))
        clear(run.code)
        for attempt in run.attempts():
            _keep_of_attempt(run, run.attempt(attempt).name)
    except OSError as error:
        raise CannotRun(f"{run.id}: {error.filename or run.path} cannot be deleted: {error.strerror}") from error


def _keep_of_attempt(run: Run, attempt: str) -> None:
    fd = open_folder(run.path, attempt)
    try:
        for name, info in entries(fd):
            if stat.S_ISDIR(info.st_mode) and is_task_folder(name):
                _keep_of_task(run, f"{attempt}/{name}")
                _delete_if_empty(name, fd)
            else:
                clear(_path(run, attempt, fd, name))
    finally:
        os.close(fd)


def _keep_of_task(run: Run, task: str) -> None:
    fd = open_folder(run.path, task)
    try:
        for name, info in entries(fd):
            if name == OUTPUT_DIR and stat.S_ISDIR(info.st_mode):
                _delete_if_empty(name, fd)
            else:
                clear(_path(run, task, fd, name))
    finally:
        os.close(fd)


def _delete_if_empty(name: str, folder: int) -> None:
    with suppress(OSError):  # it is not empty
        os.rmdir(name, dir_fd=folder)


def _path(run: Run, folder: str, fd: int, name: str) -> str:
    """A path to an entry of an open folder, which nobody can lead elsewhere; outside Linux, its plain path."""
    descriptor = f"/proc/self/fd/{fd}"
    return f"{descriptor}/{name}" if os.path.isdir(descriptor) else f"{run.path}/{folder}/{name}"
