"""The folders of one attempt below TaskSpec.folder."""

from __future__ import annotations

import os
import stat

from kedge import contract
from kedge.contract import TaskSpec
from kedge.light.contextlib import suppress
from kedge.runtime.files import link, remove


def make(spec: TaskSpec) -> None:
    """Make the substitute for /usr/local/pai, the default working directory, and the folders of results, and remove the
    end reports of an earlier start. OSError when a folder cannot be made."""
    os.makedirs(spec.runtime_d, exist_ok=True)
    for name in (contract.REPORT_FILE, contract.TERMINATION_LOG, contract.ERROR_FILE):
        remove(f"{spec.folder}/{name}")
    if spec.pai_dir is None:
        _make_pai_folder(spec)
    os.makedirs(spec.output_folder, exist_ok=True)
    for name in spec.outputs:
        os.makedirs(f"{spec.output_folder}/{os.path.basename(name)}", exist_ok=True)
    _make_job_folder(spec.job_folder)
    if spec.workdir == f"{spec.folder}/{contract.WORK_DIR}":
        os.makedirs(spec.workdir, exist_ok=True)


def _make_job_folder(path: str) -> None:
    """Make the folder that all tasks share, unless another task has. Anything else that a task has put there goes: its
    link would lead this one out of the run folder."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)  # never a folder: it may hold checkpoints
    os.makedirs(path, exist_ok=True)


def _make_pai_folder(spec: TaskSpec) -> None:
    """Make a folder with the contents that a container gets as mounts."""
    os.makedirs(f"{spec.pai}/logs", exist_ok=True)
    link("../..", f"{spec.pai}/logs/{spec.uid}")  # relative, so that it stays right when the run folder is copied
    if spec.secrets_dir:
        link(spec.secrets_dir, f"{spec.pai}/secrets")


def make_log_pipe(spec: TaskSpec) -> tuple[str, int]:
    """Make the FIFO RUNTIME_LOG_PIPE, open it, and return its path and descriptor. OSError where FIFOs cannot be made.

    It is opened for reading and writing, so that there is no end of file when a writer leaves."""
    path = _log_pipe(spec)
    remove(path)
    os.mkfifo(path, 0o600)
    return path, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def remove_log_pipe(spec: TaskSpec) -> None:
    """Remove the FIFO: without a reader, programs that open it would hang."""
    remove(_log_pipe(spec))


def _log_pipe(spec: TaskSpec) -> str:
    return f"{spec.runtime_d}/runtime_log_pipe"
