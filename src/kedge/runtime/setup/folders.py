"""The folders of one attempt: what lies where below TaskSpec.folder."""

from __future__ import annotations

import os

from kedge import contract
from kedge.contract import TaskSpec
from kedge.runtime.files import link, remove


def make(spec: TaskSpec) -> None:
    """Make the folder that stands for /usr/local/pai, and the default working directory, and remove what an earlier
    start said of its end. OSError as it comes."""
    os.makedirs(spec.runtime_d, exist_ok=True)
    for name in (contract.REPORT_FILE, contract.TERMINATION_LOG, contract.ERROR_FILE):
        remove(f"{spec.folder}/{name}")
    if spec.pai_dir is None:
        _stand_in(spec)
    if spec.workdir == f"{spec.folder}/{contract.WORK_DIR}":
        os.makedirs(spec.workdir, exist_ok=True)


def _stand_in(spec: TaskSpec) -> None:
    """What a container has as mounts."""
    os.makedirs(f"{spec.pai}/logs", exist_ok=True)
    link("../..", f"{spec.pai}/logs/{spec.uid}")  # relative: a copied run folder still points into itself
    if spec.secrets_dir:
        link(spec.secrets_dir, f"{spec.pai}/secrets")


def make_log_pipe(spec: TaskSpec) -> tuple[str, int]:
    """Make the FIFO RUNTIME_LOG_PIPE and open it: its path and descriptor. OSError where FIFOs cannot be.

    Opened for writing, too, it has no end of file when a writer leaves."""
    path = _log_pipe(spec)
    remove(path)
    os.mkfifo(path, 0o600)
    return path, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def remove_log_pipe(spec: TaskSpec) -> None:
    """Take the FIFO away: without a reader it would hang whoever opens it."""
    remove(_log_pipe(spec))


def _log_pipe(spec: TaskSpec) -> str:
    return f"{spec.runtime_d}/runtime_log_pipe"
