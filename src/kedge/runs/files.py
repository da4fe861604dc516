"""Small files that are either there as a whole or not at all, and what to say when the disk is full."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kedge.errors import DiskFull

_FULL = {
    errno.ENOSPC: "the file system is full. Free some space and try again.",
    errno.EDQUOT: "the quota is used up. Free some space and try again.",
    errno.EFBIG: "it would be larger than files may be here. Raise that limit (ulimit -f) and try again.",
}
_NO_FILE = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO})  # as open(2) says of links and of a socket
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


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


def open_folder(folder: str | os.PathLike[str], name: str = "") -> int:
    """Open the folder `name` below `folder`, where a task may have put anything. OSError also for a link on the way
    down: it could lead anywhere.
    """
    at = os.open(folder, _FOLDER)
    for each in filter(None, name.split("/")):
        outer = at
        try:
            at = os.open(each, _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
        finally:
            os.close(outer)
    return at


def open_regular(folder: str | os.PathLike[str], name: str) -> int:
    """Open the file `name` below `folder` for reading, where a task may have put anything.

    FileNotFoundError also for a link, or one on the way down, and for what is no regular file: a pipe could keep its
    reader waiting for ever.
    """
    way, _, last = name.rpartition("/")
    try:
        at = open_folder(folder, way)
        try:
            fd = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
    else:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
    raise FileNotFoundError(errno.ENOENT, "not a regular file", f"{os.fspath(folder)}/{name}")


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`; one call of write may take only a part of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file so that readers, and a machine that crashes, see the old content or all of the new.

    There must be one writer a file. DiskFull leaves the old content and no temporary file.
    """
    temporary = path.with_name(f".{path.name}.new")
    with disk_errors(path):
        try:
            _write_synced(temporary, data, mode)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def write_json(path: Path, value: Any, mode: int = 0o600) -> None:
    """`write_atomic` of a JSON document."""
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode(), mode)


def _write_synced(path: Path, data: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)  # of a crash
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, _FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
