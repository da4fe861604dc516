"""The data cache: downloaded files kept for later tasks by their SHA-256. This is the side outside of the tasks; the
side inside is kedge.runtime.actions.data_cache.

    $XDG_CACHE_HOME/kedge/data/SUM       complete, verified, read-only files; mounted read-only into containers
    $XDG_CACHE_HOME/kedge/data-partial/  downloads in progress of tasks without a container, and their locks
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from kedge import xdg
from kedge.late_patterns import late_pattern
from kedge.own_files import clear
from kedge.untrusted import open_folder, open_regular

_SUM = late_pattern(r"[0-9a-f]{64}")
_CHUNK = 1 << 20
_LEFT_FREE = 1 << 30  # bytes that stay free on the cache's file system
_ABANDONED_SEC = 86_400.0  # age after which a temporary file is deleted


class CachedFile(NamedTuple):
    """A file in the cache: its SHA-256, its size in bytes, and when it was last used (seconds since 1970)."""

    sha256: str
    size: int
    used: float


def folder() -> Path:
    """The folder of the cache. CannotRun for a user without a home folder."""
    return Path(xdg.cache(xdg.DATA, os.environ))


def is_sum(text: object) -> bool:
    """Whether this is a SHA-256 in lower-case hex, the name of a cached file."""
    return isinstance(text, str) and bool(_SUM.fullmatch(text))


class DataCache:
    """The cache in one folder. Safe for any number of threads and processes: files appear in it atomically."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def touch(self, sha256: str) -> None:
        """Mark a file as used now, if it is there."""
        with suppress(OSError):
            os.utime(self.path / sha256, follow_symlinks=False)

    def take(self, task: str, name: str, sha256: str, give_up: Callable[[], bool]) -> bool:
        """Move the file `name` of a task's folder into the cache. Returns whether it is in the cache now; raises
        OSError.

        The task may have put anything there and may still write to it, so the copy is verified, not the original.
        """
        try:
            source = open(open_regular(task, name), "rb")  # noqa: SIM115  closed below
        except FileNotFoundError:
            return False
        with source, tempfile.NamedTemporaryFile(dir=self.path, prefix=".") as copy:
            if not self._has_room(source) or _copy(source, copy, give_up) != sha256:
                return False
            os.fchmod(copy.fileno(), 0o444)
            os.fsync(copy.fileno())
            self._clear(sha256)
            os.link(copy.name, self.path / sha256)
        with suppress(OSError):
            _unlink(task, name)
        return True

    def _has_room(self, source: IO[bytes]) -> bool:
        """Whether the full size fits, holes included: a task may have left a huge sparse file."""
        return os.fstat(source.fileno()).st_size + _LEFT_FREE < shutil.disk_usage(self.path).free

    def _clear(self, sha256: str) -> None:
        """Remove the old file of this name, which is damaged or the same."""
        with suppress(FileNotFoundError):
            _remove(self.path / sha256)

    def entries(self) -> list[CachedFile]:
        """All files, the most recently used first."""
        return sorted(self._entries(), key=lambda entry: -entry.used)

    def _entries(self) -> Iterator[CachedFile]:
        for path in self.path.glob("[0-9a-f]*"):
            with suppress(OSError):
                found = path.lstat()
                yield CachedFile(path.name, found.st_size, found.st_mtime)

    def prune(self, unused_sec: float = 0.0) -> list[CachedFile]:
        """Delete files that were not used for `unused_sec` seconds, and abandoned downloads. Returns the deleted files.
        Tasks that are reading a file are not disturbed."""
        limit = time.time() - unused_sec
        unused = [entry for entry in self.entries() if entry.used <= limit]
        for entry in unused:
            self._clear(entry.sha256)
        partial = Path(f"{self.path}-partial")
        for path in (*self.path.glob(".*"), *partial.glob("*.own-*")):
            with suppress(OSError):
                if path.lstat().st_mtime < time.time() - _ABANDONED_SEC:
                    _remove(path)
        for path in partial.glob("*.lock"):
            with suppress(OSError):
                _prune_partial(path, limit)
        return unused


def _copy(source: IO[bytes], copy: IO[bytes], give_up: Callable[[], bool]) -> str | None:
    """The SHA-256 of what was copied; None if `give_up` ended the copy. Copies no more than the size at the start."""
    digest = hashlib.sha256()
    left = os.fstat(source.fileno()).st_size
    while chunk := source.read(min(_CHUNK, left)):
        left -= len(chunk)
        if give_up():
            return None
        digest.update(chunk)
        copy.write(chunk)
    copy.flush()
    return digest.hexdigest()


def _unlink(task: str, name: str) -> None:
    parent, _, last = name.rpartition("/")
    fd = open_folder(task, parent)
    try:
        os.unlink(last, dir_fd=fd)
    finally:
        os.close(fd)


def _remove(path: Path) -> None:
    clear(path)


def _prune_partial(lock_file: Path, limit: float) -> None:
    """Delete a partial download unless a task is fetching it now. The lock file stays: if it were replaced, two tasks
    could each hold a lock."""
    fd = os.open(lock_file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        partial = lock_file.with_suffix(".partial")
        if partial.lstat().st_mtime <= limit:
            _remove(partial)
    finally:
        os.close(fd)
