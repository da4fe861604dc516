"""Small files that are either there as a whole or not at all, and what to say when the disk is full."""

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
from kedge.own_files import clear

_FULL = {
    errno.ENOSPC: "the file system is full. Free some space and try again.",
    errno.EDQUOT: "the quota is used up. Free some space and try again.",
    errno.EFBIG: "it would be larger than files may be here. Raise that limit (ulimit -f) and try again.",
}


@contextmanager
def disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """A context in which a full file system, quota or file is a DiskFull that names `path`; other errors pass as they
    are."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DiskFull(f"{os.fspath(path)}: cannot be written: {_FULL[error.errno]}") from error


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`; one call of write may take only a part of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, synced: bool = True) -> None:
    """Write a file so that readers, and a machine that crashes, see the old content or all of the new; readers alone
    if it is not `synced`, which takes a while.

    There must be one writer a file. DiskFull leaves the old content and no temporary file.
    """
    temporary = path.with_name(f".{path.name}.new")
    with disk_errors(path):
        try:
            _write_new(temporary, data, mode, synced)
            _put(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if synced:
            _sync_folder(path.parent)


def write_json(path: Path, value: Any, mode: int = 0o600, *, synced: bool = True) -> None:
    """`write_atomic` of a JSON document."""
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode(), mode, synced=synced)


def _put(temporary: Path, path: Path) -> None:
    try:
        os.replace(temporary, path)
    except IsADirectoryError:  # a task's
        clear(path)
        os.replace(temporary, path)


def _write_new(path: Path, data: bytes, mode: int, synced: bool) -> None:
    clear(path)  # of a crash, or of a task
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(fd, data)
        if synced:
            os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, untrusted.FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
