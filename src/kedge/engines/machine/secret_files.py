"""The values of a job's secrets, in memory-backed files that only this user can read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kedge.contract import SECRET_DOCUMENT, SECRET_VALUES
from kedge.resolve.model import Secrets
from kedge.runs.atomic_files import disk_errors
from kedge.runs.folder import Run

_MEMORY = "/dev/shm"  # noqa: S108  (the folder made in it is 0700, and must not exist before)


def location(run: Run) -> str:
    """The folder for a run's secrets: in memory if possible, otherwise in the run folder."""
    in_memory, on_disk = _places(run)
    return in_memory if os.access(_MEMORY, os.W_OK | os.X_OK) else on_disk


def _places(run: Run) -> tuple[str, str]:
    return f"{_MEMORY}/kedge-{os.getuid()}-{run.id}", str(run.path / "secrets")


@contextmanager
def written(folder: str, secrets: Secrets) -> Iterator[str | None]:
    """A context with the folder that holds the contract's secret files, or None for a job without secrets. The folder
    is removed at the end. DiskFull."""
    if not secrets.texts:
        yield None
        return
    with disk_errors(folder):
        os.mkdir(folder, 0o700)
    try:
        with disk_errors(folder):
            _write(os.path.join(folder, SECRET_VALUES), secrets.texts)
            _write(os.path.join(folder, SECRET_DOCUMENT), secrets.document)
        yield folder
    finally:
        remove(folder)


def remove(folder: str) -> None:
    """Remove the folder if it is there."""
    import shutil  # slow to load, and most jobs have no secrets

    shutil.rmtree(folder, ignore_errors=True)


def remove_all(run: Run) -> None:
    """Remove a run's secrets from every possible place: its run.json is not trusted, since a task may have changed
    it."""
    for folder in _places(run):
        remove(folder)


def _write(path: str, values: object) -> None:
    # JSON is also valid YAML, the format of the document.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(values, file)
