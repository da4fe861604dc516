"""Downloaded files that all tasks of a user share, stored under their SHA-256.

On the machine itself, or on all nodes of a cluster, the cache is $XDG_CACHE_HOME/kedge/data/<sum>. Unfinished files are
in data-partial beside it; only the holder of the lock <sum>.lock writes <sum>.partial. Who waits for it and sees no
progress, as the holder hangs, perhaps on another node, or who finds no locks there, fetches a copy of its own. A
container has read-only access to the cache: it fetches missing files into a folder of its own, from which kedge's
controller, outside the container, moves them into the cache.

Files are opened without following links, must be regular, and are used only if their sum is right. The descriptor that
was checked is the one that is used, so later changes to the path have no effect.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kedge import lock_waits, xdg
from kedge.contract import DATA_CACHE_DIR, FETCHED_DIR
from kedge.errors import CannotRun
from kedge.own_files import clear, open_own
from kedge.runtime.actions.base import ActionFailed, ActionJob

STILL_SEC = 180.0  # a holder of the lock may take that long to compute a sum, during which its file does not grow
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CacheFolders(NamedTuple):
    """The folder of complete files, the folder for files being fetched, and the one to move them to when complete."""

    files: str
    partial: str
    target: str


def find(pai: str) -> CacheFolders | None:
    """The cache mounted into this container, or that of this machine. None if there is none."""
    if os.path.isdir(mounted := f"{pai}/{DATA_CACHE_DIR}"):
        own = f"{pai}/{FETCHED_DIR}"
        return CacheFolders(mounted, own, own) if os.access(own, os.W_OK | os.X_OK) else None
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
    """A path to the file with this sum, which is fetched if it is missing. The path stays valid inside the context.

    `fetch(path)` writes the file, or completes a partial one, and checks its sum."""
    fd = _open_checked(cache.files, digest, job)
    if fd is None:
        fd = _fetched(cache, digest, fetch, job)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _fetched(cache: CacheFolders, digest: str, fetch: Callable[[str], None], job: ActionJob) -> int:
    with _partial(cache, digest, job) as partial:
        fd = _open_checked(cache.target, digest, job)  # another task may have been faster
        while fd is None:
            _clear(partial, keep_regular=True)
            fetch(partial)
            fd = _open(partial)
            if fd is not None:
                os.fchmod(fd, 0o444)  # for tasks in containers and for the controller, whatever the umask
                os.fsync(fd)
                target = os.path.join(cache.target, digest)
                _clear(target)
                os.rename(partial, target)
    return fd


def _open_checked(folder: str, digest: str, job: ActionJob) -> int | None:
    """A descriptor of the file if it exists and its sum is right, else None."""
    path = os.path.join(folder, digest)
    fd = _open(path)
    if fd is not None and _sum(fd) == digest:
        with contextlib.suppress(OSError):
            os.utime(fd)  # so that the clean-up of unused files sees that it is used
        return fd
    if fd is not None:
        os.close(fd)
    if os.path.lexists(path):
        job.log(f"{path} is damaged and is fetched again")
    return None


def _open(path: str) -> int | None:
    """A descriptor for reading, None if the path is not a regular file."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _clear(path: str, keep_regular: bool = False) -> None:
    """Remove whatever `path` is; with `keep_regular`, only if it is not a regular file."""
    with contextlib.suppress(FileNotFoundError):
        if not (keep_regular and stat.S_ISREG(os.lstat(path).st_mode)):
            clear(path)


def sha256(path: str) -> str:
    """The SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return _sum(file.fileno())


def _sum(fd: int) -> str:
    with open(fd, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: str, digest: str | None, what: str) -> None:
    """ActionFailed if the file does not have the SHA-256 `digest`."""
    if digest and (found := sha256(path)) != digest:
        raise ActionFailed(
            f"{what} has the SHA-256 {found}, not {digest}: it was changed or is damaged", "data_corrupt"
        )


@contextlib.contextmanager
def _partial(cache: CacheFolders, digest: str, job: ActionJob) -> Iterator[str]:
    """The path of the unfinished file that only this process writes: the one that all tasks share, which remains for
    the next try, or one of its own, which does not."""
    shared = os.path.join(cache.partial, f"{digest}.partial")
    lock = open_own(os.path.join(cache.partial, f"{digest}.lock"), os.O_RDWR)
    try:
        if _locked(lock, shared, digest, job):
            yield shared
            return
        own = tempfile.mkdtemp(prefix=f"{digest}.own-", dir=cache.partial)
        try:
            yield os.path.join(own, "file")
        finally:
            _clear(own)
    finally:
        os.close(lock)


def _locked(lock: int, partial: str, digest: str, job: ActionJob) -> bool:
    """Wait for the lock of a file. False if that is not worth it."""
    file = f"{digest[:12]}…"
    try:
        lock_waits.lock(
            lock, fcntl.LOCK_EX, STILL_SEC, quiet_sec=0.0, progress=lambda: _growth(partial),
            say=lambda holder: job.log(f"{file} is in use by another task ({holder}); waiting for it"),
        )  # fmt: skip
    except lock_waits.StillLocked as error:
        job.log(f"{file} has not grown for {STILL_SEC:g} s, in which {error} had it; fetching it once more")
        return False
    except OSError as error:
        job.log(f"{file} cannot be locked ({error.strerror}), so other tasks may fetch it at the same time")
        return False
    return True


def _growth(path: str) -> tuple[int, int] | None:
    """What changes while somebody writes a file."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
