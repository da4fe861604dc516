"""The `*.log` files of the working folder that changed during the attempt. The task wrote them, so they are untrusted:
no link is followed, only regular files are opened, and the amount read is limited."""

from __future__ import annotations

import os
import stat

from kedge.contract import TaskSpec
from kedge.light import contextlib
from kedge.light.types import NamedTuple

MAX_FILES = 8  # the last changed ones
TAIL_BYTES = 64 << 10  # read at the end of each
COUNTED = 64 << 20  # bytes before the tail in which lines are counted
_MAX_ENTRIES = 5_000  # directory entries that are looked at
_MAX_DEPTH = 3  # nested folders
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WorkLog(NamedTuple):
    """The end of a file, and how many lines precede it."""

    path: str
    content: bytes
    lines_before: int


def collect(spec: TaskSpec, started: int) -> list[WorkLog]:
    """The logs that changed since `started` (nanoseconds since 1970), the last changed first."""
    try:
        own = os.stat(spec.folder)
        top = os.open(spec.workdir, _FOLDER & ~os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        walk = _Walk(started, (own.st_dev, own.st_ino))
        walk.folder(top, ())
        latest = sorted(walk.changed, reverse=True)[:MAX_FILES]
        return [log for _, parts in latest if (log := _read(top, spec.workdir, parts, started))]
    finally:
        os.close(top)


class _Walk:
    """Finds the logs that changed. `changed` lists (time, parts of the path). `own` identifies the folder of kedge's
    own logs by device and inode; it is skipped."""

    def __init__(self, started: int, own: tuple[int, int]) -> None:
        self.changed: list[tuple[int, tuple[str, ...]]] = []
        self._started, self._own, self._left = started, own, _MAX_ENTRIES

    def folder(self, fd: int, parts: tuple[str, ...]) -> None:
        """Look through a folder and the folders below it."""
        stat_result = os.fstat(fd)
        if (stat_result.st_dev, stat_result.st_ino) == self._own or len(parts) > _MAX_DEPTH:
            return
        below = []
        with os.scandir(fd) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    return
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                elif entry.name.endswith(".log") and entry.is_file(follow_symlinks=False):
                    self._note(entry, parts)
        for name in below:
            self._below(fd, (*parts, name))

    def _note(self, entry: os.DirEntry[str], parts: tuple[str, ...]) -> None:
        changed = entry.stat(follow_symlinks=False).st_mtime_ns
        if changed >= self._started:
            self.changed.append((changed, (*parts, entry.name)))

    def _below(self, fd: int, parts: tuple[str, ...]) -> None:
        with contextlib.suppress(OSError):  # it is gone or not readable
            inner = os.open(parts[-1], _FOLDER, dir_fd=fd)
            try:
                self.folder(inner, parts)
            finally:
                os.close(inner)


def _read(top: int, workdir: str, parts: tuple[str, ...], started: int) -> WorkLog | None:
    try:
        with open(_open_beneath(top, parts), "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mtime_ns < started:
                return None
            skipped = max(0, found.st_size - TAIL_BYTES)
            before = _lines(file.fileno(), skipped)
            content = os.pread(file.fileno(), TAIL_BYTES, skipped)
    except OSError:
        return None
    first = content.find(b"\n") + 1 if skipped else 0
    return WorkLog(os.path.join(workdir, *parts), content[first:], before + bool(first))


def _open_beneath(top: int, parts: tuple[str, ...]) -> int:
    """Open a file one path component at a time, so that no link on the way is followed."""
    fd = os.dup(top)
    for flags, name in zip([_FOLDER] * (len(parts) - 1) + [_FILE], parts, strict=True):
        try:
            inner = os.open(name, flags, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _lines(fd: int, end: int) -> int:
    """The number of lines that end before the byte `end`; beyond the first COUNTED bytes none are counted."""
    count = at = 0
    while at < min(end, COUNTED) and (data := os.pread(fd, min(1 << 20, end - at), at)):
        count, at = count + data.count(b"\n"), at + len(data)
    return count
