"""Files that all tasks of a user share, by their SHA-256.

On a machine itself the cache is $XDG_CACHE_HOME/kedge/data/<sum>; what is being fetched is in data-partial beside it,
where whoever holds the lock <sum>.lock may write. A container sees the cache and cannot change it: it fetches what is
not there into a folder of its own, from which kedge's controller, outside, takes it into the cache.

Whatever lies there is opened without following links, must be a regular file, and counts only if its sum is right; the
file that was checked is the one that is used, whatever happens to its name meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kedge import xdg
from kedge.contract import DATA_CACHE_DIR, FETCHED_DIR
from kedge.errors import CannotRun
from kedge.own_files import clear, open_own
from kedge.runtime.actions.base import ActionFailed, ActionJob

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CacheFolders(NamedTuple):
    """Where whole files are looked for, where missing ones are fetched, and where they are put when they are whole."""

    files: str
    partial: str
    target: str


def find(pai: str) -> CacheFolders | None:
    """The cache of this machine, or the one that a container was given; None if there is none."""
    if os.path.isdir(given := f"{pai}/{DATA_CACHE_DIR}"):
        own = f"{pai}/{FETCHED_DIR}"
        return CacheFolders(given, own, own) if os.access(own, os.W_OK | os.X_OK) else None
    try:
        files = xdg.cache(xdg.DATA, os.environ)
        cache = CacheFolders(files, f"{files}-partial", files)
        for folder in (cache.files, cache.partial):
            os.makedirs(folder, exist_ok=True)
    except (CannotRun, OSError):
        return None
    return cache if all(os.access(folder, os.W_OK | os.X_OK) for folder in cache) else None


@contextlib.contextmanager
def entry(cache: CacheFolders, digest: str, fetch: Callable[[str], None], job: ActionJob) -> Iterator[str]:
    """A path of the file with this sum, fetched if it is not there; it stays what it is until the end.

    `fetch(path)` writes the file, completing what is there of it, and checks its sum."""
    fd = _whole(cache.files, digest, job)
    if fd is None:
        fd = _fetched(cache, digest, fetch, job)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _fetched(cache: CacheFolders, digest: str, fetch: Callable[[str], None], job: ActionJob) -> int:
    with _locked(os.path.join(cache.partial, f"{digest}.lock"), digest, job):
        fd = _whole(cache.target, digest, job)  # another task may have been faster
        while fd is None:
            partial = os.path.join(cache.partial, f"{digest}.partial")
            _clear(partial, but_files=True)
            fetch(partial)
            fd = _open(partial)
            if fd is not None:
                os.fchmod(fd, 0o444)  # for tasks in containers and for the controller, whatever the umask
                os.fsync(fd)
                target = os.path.join(cache.target, digest)
                _clear(target)
                os.rename(partial, target)
    return fd


def _whole(folder: str, digest: str, job: ActionJob) -> int | None:
    """A descriptor of the file, if it is there as it should be."""
    path = os.path.join(folder, digest)
    fd = _open(path)
    if fd is not None and _sum(fd) == digest:
        with contextlib.suppress(OSError):
            os.utime(fd)  # for who removes what nobody used for long
        return fd
    if fd is not None:
        os.close(fd)
    if os.path.lexists(path):
        job.say(f"{path} is damaged and is fetched again")
    return None


def _open(path: str) -> int | None:
    """A descriptor for reading; None for what is no regular file."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _clear(path: str, but_files: bool = False) -> None:
    """Remove what is there; with `but_files`, only if it is no regular file."""
    with contextlib.suppress(FileNotFoundError):
        if not (but_files and stat.S_ISREG(os.lstat(path).st_mode)):
            clear(path)


def sha256(path: str) -> str:
    """The sum of a file, in hex."""
    with open(path, "rb") as file:
        return _sum(file.fileno())


def _sum(fd: int) -> str:
    with open(fd, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: str, digest: str | None, what: str) -> None:
    """ActionFailed if the file is another than the one that is wanted."""
    if digest and (found := sha256(path)) != digest:
        raise ActionFailed(
            f"{what} has the SHA-256 {found}, not {digest}: it was changed, or is damaged", "data_corrupt"
        )


@contextlib.contextmanager
def _locked(path: str, digest: str, job: ActionJob) -> Iterator[None]:
    lock = open_own(path, os.O_RDWR)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            job.say(f"{digest[:12]}… is in use by another task of this machine; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
