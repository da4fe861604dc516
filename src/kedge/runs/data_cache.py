"""Files that tasks have downloaded, kept for later ones by their SHA-256: the cache of
kedge.runtime.actions.data_cache, seen from outside of the tasks.

    $XDG_CACHE_HOME/kedge/data/SUM       read-only, whole and checked; containers see this folder and cannot write to it
    $XDG_CACHE_HOME/kedge/data-partial/  what tasks without a container are fetching, and their locks
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from kedge import xdg
from kedge.own_files import clear
from kedge.untrusted import open_folder, open_regular

_SUM = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20
_LEFT_FREE = 1 << 30  # bytes on the cache's file system
_ABANDONED_SEC = 86_400.0


class CachedFile(NamedTuple):
    """A file in the cache: its sum, its size in bytes, and when it was last used (seconds since 1970)."""

    sha256: str
    size: int
    used: float


def folder() -> Path:
    """Where the cache is. CannotRun for a user without a home folder."""
    return Path(xdg.cache("data", os.environ))


def is_sum(text: object) -> bool:
    """Whether this is a SHA-256 in hex, as the cache has it."""
    return isinstance(text, str) and bool(_SUM.fullmatch(text))


class DataCache:
    """The cache in one folder. For use by any thread and any number of processes: a file is put in its place in one
    move."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def touch(self, sha256: str) -> None:
        """Note that a file, if it is there, is used."""
        with suppress(OSError):
            os.utime(self.path / sha256, follow_symlinks=False)

    def take(self, task: str, name: str, sha256: str, give_up: Callable[[], bool]) -> bool:
        """Take in the file `name` that a task has left below its folder, and delete it there. Whether it is in the
        cache now; OSError as it comes.

        The task may have put anything there, and may still write to it: what is copied is checked, not what is there.
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
        """Also against a file of the task's that has far more holes than bytes."""
        return os.fstat(source.fileno()).st_size + _LEFT_FREE < shutil.disk_usage(self.path).free

    def _clear(self, sha256: str) -> None:
        """Whatever is there is damaged, or the same."""
        with suppress(FileNotFoundError):
            _remove(self.path / sha256)

    def entries(self) -> list[CachedFile]:
        """Every file in it, the latest used first."""
        return sorted(self._entries(), key=lambda entry: -entry.used)

    def _entries(self) -> Iterator[CachedFile]:
        for path in self.path.glob("[0-9a-f]*"):
            with suppress(OSError):
                found = path.lstat()
                yield CachedFile(path.name, found.st_size, found.st_mtime)

    def prune(self, unused_sec: float = 0.0) -> list[CachedFile]:
        """Delete what nobody has used for so many seconds, and what was left half-fetched. Gives what went. Tasks that
        are reading a file are not disturbed."""
        limit = time.time() - unused_sec
        gone = [entry for entry in self.entries() if entry.used <= limit]
        for entry in gone:
            self._clear(entry.sha256)
        for path in self.path.glob(".*"):
            with suppress(OSError):
                if path.lstat().st_mtime < time.time() - _ABANDONED_SEC:
                    _remove(path)
        for path in Path(f"{self.path}-partial").glob("*.lock"):
            with suppress(OSError):
                _prune_partial(path, limit)
        return gone


def _copy(source: IO[bytes], copy: IO[bytes], give_up: Callable[[], bool]) -> str | None:
    """The sum of what was copied; None if it was given up. A file that grows meanwhile is not followed."""
    digest = hashlib.sha256()
    left = os.fstat(source.fileno()).st_size
    while piece := source.read(min(_PIECE, left)):
        left -= len(piece)
        if give_up():
            return None
        digest.update(piece)
        copy.write(piece)
    copy.flush()
    return digest.hexdigest()


def _unlink(task: str, name: str) -> None:
    way, _, last = name.rpartition("/")
    at = open_folder(task, way)
    try:
        os.unlink(last, dir_fd=at)
    finally:
        os.close(at)


def _remove(path: Path) -> None:
    clear(path)


def _prune_partial(lock_file: Path, limit: float) -> None:
    """Delete what is half-fetched, unless somebody fetches it now. Locks stay: two tasks could each hold their own."""
    fd = os.open(lock_file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        partial = lock_file.with_suffix(".partial")
        if partial.lstat().st_mtime <= limit:
            _remove(partial)
    finally:
        os.close(fd)
