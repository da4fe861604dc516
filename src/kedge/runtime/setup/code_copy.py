"""The task attempt's own copy of the job's code, made before anything of the user runs.

It is made under another name and renamed, so it is complete or absent. Its files can be changed by their owner, even
though those of the snapshot are read-only; apart from that, modes, times and links are the same.
"""

from __future__ import annotations

import os
import time

from kedge.file_copies import copy_content
from kedge.light.types import Callable, NamedTuple
from kedge.own_files import clear
from kedge.untrusted import FOLDER, is_regular

_LOOK_SEC = 0.05  # how often a stop is looked for
_IN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER, _LINK, _FILE = range(3)
_OUT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class CopiedCode(NamedTuple):
    """What was copied."""

    files: int
    bytes: int


def make(snapshot: str, target: str, stopping: Callable[[], bool]) -> CopiedCode | None:
    """Copy a folder; `target` is replaced. Returns None, and leaves nothing, once `stopping` returns true: it is called
    now and then. OSError: its `filename` is the entry that could not be made in `target`; nothing is left either."""
    clear(target)
    parent, name = os.path.split(target)
    os.makedirs(parent, exist_ok=True)
    partial = f"{parent}/.{name}.new"
    clear(partial)
    copy = _Copy(stopping)
    try:
        copy.tree(snapshot, partial, target)
        os.rename(partial, target)
    except _Stopped:
        clear(partial)
        return None
    except BaseException:
        clear(partial)
        raise
    return CopiedCode(copy.files, copy.bytes)


class _Stopped(Exception):
    """The task is stopping."""


class _Copy:
    """Copies a tree, one folder after the other."""

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self.files = self.bytes = 0
        self._stopping, self._next_look = stopping, time.monotonic() + _LOOK_SEC
        self._at = "."  # the entry that is being copied
        self._pending = ["."]  # folders
        self._folders: list[tuple[str, os.stat_result]] = []  # whose modes and times are set at the end

    def tree(self, source: str, target: str, name: str) -> None:
        """Copy a folder to `target`, which errors call `name`."""
        # Paths are relative to these two, since a path in the copy may be longer than the system allows.
        inner, outer = os.open(source, FOLDER), -1
        try:
            os.mkdir(target, 0o700)
            outer = os.open(target, FOLDER)
            self._all(inner, outer, name)
        finally:
            os.close(inner)
            if outer >= 0:
                os.close(outer)

    def _all(self, source: int, target: int, name: str) -> None:
        try:
            while self._pending:
                self._folder(source, target, self._pending.pop())
            for folder, info in reversed(self._folders):
                self._at = folder
                os.chmod(folder, info.st_mode & 0o777 | 0o700, dir_fd=target)
                os.utime(folder, ns=(info.st_atime_ns, info.st_mtime_ns), dir_fd=target)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.path.normpath(f"{name}/{self._at}")) from error

    def _folder(self, source: int, target: int, folder: str) -> None:
        self._at = folder
        self._folders.append((folder, os.stat(folder, dir_fd=source, follow_symlinks=False)))
        for path, kind in _entries(source, folder):
            self._at = path
            self._look()
            self._entry(source, target, path, kind)

    def _entry(self, source: int, target: int, path: str, kind: int) -> None:
        if kind == _FOLDER:
            os.mkdir(path, 0o700, dir_fd=target)
            self._pending.append(path)
        elif kind == _LINK:
            os.symlink(os.readlink(path, dir_fd=source), path, dir_fd=target)
        else:
            self._file(source, target, path)

    def _file(self, source: int, target: int, path: str) -> None:
        fd = os.open(path, _IN, dir_fd=source)
        if not is_regular(fd):  # a task has put it there
            return
        try:
            info, out = os.fstat(fd), os.open(path, _OUT, 0o600, dir_fd=target)
            try:
                for count in copy_content(fd, out):
                    self.bytes += count
                    self._look()
                os.fchmod(out, info.st_mode & 0o777 | 0o200)
                os.utime(out, ns=(info.st_atime_ns, info.st_mtime_ns))
            finally:
                os.close(out)
        finally:
            os.close(fd)
        self.files += 1

    def _look(self) -> None:
        if (now := time.monotonic()) > self._next_look:
            self._next_look = now + _LOOK_SEC
            if self._stopping():
                raise _Stopped


def _entries(source: int, folder: str) -> list[tuple[str, int]]:
    """The paths of what is in a folder, and what each is."""
    fd = os.open(folder, FOLDER | os.O_NOFOLLOW, dir_fd=source)
    try:
        with os.scandir(fd) as entries:
            return [(f"{folder}/{entry.name}", _kind(entry)) for entry in entries]
    finally:
        os.close(fd)


def _kind(entry: os.DirEntry[str]) -> int:
    return _LINK if entry.is_symlink() else _FOLDER if entry.is_dir(follow_symlinks=False) else _FILE
