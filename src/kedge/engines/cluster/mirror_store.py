"""The mirrored files of a task attempt on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kedge.contract import CURRENT, STREAMS
from kedge.link import mirroring
from kedge.own_files import write_all
from kedge.untrusted import FOLDER, is_regular

_MOST_FILES = 100_000
_MOST_LOGS = 2000  # of these: far more than a supervisor makes
_BELOW = FOLDER | os.O_NOFOLLOW
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MirrorStore:
    """Files below `folder`, by paths that were checked; no link is followed. `dropped` counts the bytes that were not
    stored, for the `reason` of the first of them."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.dropped = 0
        self.reason = ""
        self._limit = limit
        self._top = os.open(folder, FOLDER)
        sizes = dict(self._files())
        self._bytes, self._logs = sum(sizes.values()), sum(map(mirroring.is_log, sizes))
        self._count = len(sizes)

    def close(self) -> None:
        os.close(self._top)

    def offsets(self) -> dict[str, Any]:
        """For each log, how much of it is stored, and the fingerprint of that."""
        found = {}
        for path, size in self._files():
            if mirroring.is_log(path):
                with self._parent(path) as at:
                    fd = os.open(os.path.basename(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                try:
                    found[path] = {"size": size, "fingerprint": mirroring.fingerprint(fd, size)}
                finally:
                    os.close(fd)
        return found

    def ends(self) -> str:
        """How far each of the task's logs has come, for people; empty if none has begun."""
        sizes = dict(self._files())
        logs = [path for stream in STREAMS if (path := f"{stream}/{CURRENT}") in sizes]
        return ", ".join(f"byte {sizes[path]} of {path}" for path in logs)

    def write(self, path: str, offset: int, data: bytes, *, new: bool) -> None:
        """Write bytes at an offset of a file, after what is there of it, or over it."""
        try:
            with self._parent(path, make=True) as at:
                self._write(at, path, offset, data, new)
        except OSError as error:
            self._drop(len(data), f"{path}: {error.strerror}")

    def rename(self, path: str, to: str) -> None:
        """Rename a log. If it is not there, that has happened before."""
        if path == to:
            return  # two names become one below
        with suppress(OSError), self._parent(path) as old, self._parent(to, make=True) as new:
            before = _size(new, os.path.basename(to))
            os.rename(os.path.basename(path), os.path.basename(to), src_dir_fd=old, dst_dir_fd=new)
            self._uncount(before)

    def remove(self, path: str) -> None:
        """Remove a log if it is there."""
        with suppress(OSError), self._parent(path) as at:
            before = _size(at, os.path.basename(path))
            os.unlink(os.path.basename(path), dir_fd=at)
            self._uncount(before)

    def _uncount(self, size: int | None) -> None:
        if size is not None:
            self._bytes, self._count, self._logs = self._bytes - size, self._count - 1, self._logs - 1

    def _write(self, at: int, path: str, offset: int, data: bytes, new: bool) -> None:
        name, is_log = os.path.basename(path), mirroring.is_log(path)
        before = _size(at, name)
        if before is None and (self._count >= _MOST_FILES or (is_log and self._logs >= _MOST_LOGS)):
            raise OSError(errno.EDQUOT, "there are too many files")
        fd = os.open(name, _FILE, 0o644, dir_fd=at)
        if not is_regular(fd):
            raise OSError(errno.EINVAL, "it is not a regular file")
        try:
            self._count += before is None
            self._logs += is_log and before is None
            size = 0 if new else before or 0
            if new:
                os.ftruncate(fd, 0)
                self._bytes -= before or 0
            self._check(size, offset, data)
            os.lseek(fd, offset, os.SEEK_SET)
            write_all(fd, data)
        finally:
            size_now = os.fstat(fd).st_size
            self._bytes += size_now - (0 if new else before or 0)
            os.close(fd)

    def _check(self, size: int, offset: int, data: bytes) -> None:
        if offset > size:
            raise OSError(errno.EINVAL, "what comes before was not stored")
        if self._bytes + offset + len(data) - size > self._limit:
            raise OSError(errno.EDQUOT, f"the limit of a task is {self._limit >> 20} MiB")

    def _drop(self, count: int, reason: str) -> None:
        self.dropped += count
        self.reason = self.reason or reason

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[int]:
        """The folder of a file, made if need be."""
        at = os.dup(self._top)
        try:
            for name in path.split("/")[:-1]:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=at)
                outer, at = at, os.open(name, _BELOW, dir_fd=at)
                os.close(outer)
            yield at
        finally:
            os.close(at)

    def _files(self) -> Iterator[tuple[str, int]]:
        """What is stored, with sizes."""
        for folder, _, names, at in os.fwalk(dir_fd=self._top):
            for name in names:
                path = os.path.join(folder, name).removeprefix("./")
                if (mirroring.is_log(path) or mirroring.is_output(path)) and (size := _size(at, name)) is not None:
                    yield path, size


def _size(at: int, name: str) -> int | None:
    """The size of a file; None if there is none."""
    with suppress(FileNotFoundError):
        return os.lstat(name, dir_fd=at).st_size
    return None
