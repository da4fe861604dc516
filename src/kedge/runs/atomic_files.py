"""Writes small files atomically, and turns full disks and quotas into DiskFull errors."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kedge import untrusted
from kedge.errors import DiskFull
from kedge.own_files import replace_own

_FULL = {
    errno.ENOSPC: "the file system is full. Free some space and try again.",
    errno.EDQUOT: "the quota is used up. Free some space and try again.",
    errno.EFBIG: "it would exceed the file size limit. Raise the limit (ulimit -f) and try again.",
}


@contextmanager
def disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """A context that turns a full file system, an exhausted quota or the file size limit into a DiskFull that names
    `path`. Other errors pass unchanged."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DiskFull(f"{os.fspath(path)}: cannot be written: {_FULL[error.errno]}") from error


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, synced: bool = True, followed: bool = False) -> None:
    """Replace a file atomically: readers see either the old content or all of the new. With `synced`, which takes a
    while, this also holds after a crash of the machine, and the new content is there once the call returns; for a file
    that is `followed` by another in the same folder, once that is written.

    A file must have only one writer. DiskFull leaves the old content and no temporary file.
    """
    with disk_errors(path):
        replace_own(path, path.with_name(f".{path.name}.new"), data, mode, synced=synced)
        if synced and not followed:
            _sync_folder(path.parent)


def write_json(path: Path, value: Any, mode: int = 0o600, *, synced: bool = True, followed: bool = False) -> None:
    """`write_atomic` of a JSON document."""
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode(), mode, synced=synced, followed=followed)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, untrusted.FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
