"""Files that all tasks of this machine share, by their SHA-256: $XDG_CACHE_HOME/kedge/data/<sum>.

A file under its sum is whole; what is being fetched is <sum>.partial, and whoever holds the lock <sum>.lock may write.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator

from kedge import xdg
from kedge.errors import CannotRun
from kedge.runtime.failed import Failed, Job


def folder(pai: str) -> str | None:
    """Where the cache is; None if it cannot be written to. What a container was given for it comes first."""
    if os.path.isdir(given := f"{pai}/data-cache"):
        return given if os.access(given, os.W_OK | os.X_OK) else None
    try:
        path = xdg.cache("data", os.environ)
        os.makedirs(path, exist_ok=True)
    except (CannotRun, OSError):
        return None
    return path if os.access(path, os.W_OK | os.X_OK) else None


@contextlib.contextmanager
def entry(cache: str, digest: str, fetch: Callable[[str], None], job: Job) -> Iterator[str]:
    """The path of the file with this sum, fetched if it is not there; nobody replaces it meanwhile.

    `fetch(path)` writes the file, completing what is there of it, and checks its sum."""
    path = os.path.join(cache, digest)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _open_up(cache, lock)
        while not _is_whole(path, digest, lock, job):
            partial = f"{path}.partial"
            if os.path.exists(partial) and not os.access(partial, os.W_OK):  # of another user of a cache for all
                os.unlink(partial)
            fetch(partial)
            with open(partial, "rb") as file:
                _open_up(cache, file.fileno())
                os.fsync(file.fileno())
            os.rename(partial, path)
        yield path
    finally:
        os.close(lock)


def _open_up(cache: str, fd: int) -> None:
    """In a cache into which everybody may write, as that of containers, others may need the file, too; what is in it is
    checked before it is used."""
    if os.stat(cache).st_mode & stat.S_IWOTH and os.fstat(fd).st_uid == os.geteuid():
        os.fchmod(fd, 0o666)


def _is_whole(path: str, digest: str, lock: int, job: Job) -> bool:
    """Whether the file is there as it should be, and then locked for readers; else locked for whoever fetches it."""
    _lock(lock, digest, job)
    while os.path.exists(path):
        seen = os.stat(path).st_ino
        fcntl.flock(lock, fcntl.LOCK_SH)  # several may look at it at once
        if sha256(path) == digest:
            os.utime(path)  # for who removes what nobody used for long
            return True
        _lock(lock, digest, job)
        if os.stat(path).st_ino == seen:
            job.say(f"{path} is damaged and is fetched anew")
            os.unlink(path)
    return False


def sha256(path: str) -> str:
    """The sum of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: str, digest: str | None, what: str) -> None:
    """Failed if the file is another than the one that is wanted."""
    if digest and (found := sha256(path)) != digest:
        raise Failed(f"{what} has the SHA-256 {found}, not {digest}: it was changed, or is damaged", "data_corrupt")


def _lock(fd: int, digest: str, job: Job) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        job.say(f"{digest[:12]}… is in use by another task of this machine; waiting for it")
        fcntl.flock(fd, fcntl.LOCK_EX)
