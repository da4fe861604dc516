"""Building a folder or a file beside its target, and moving it into place when it is complete."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator

from kedge.runtime.actions.base import ActionFailed

_LONGEST_NAME = 50  # characters taken from the target's name, so that the temporary name stays below 255 bytes
_MOVE_ENTRIES = frozenset({errno.EXDEV, errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST})


@contextlib.contextmanager
def beside(target: str, keep: tuple[str, ...] = ()) -> Iterator[str]:
    """A temporary folder on the file system of `target`, removed at the end. Folders left by killed processes are
    removed too.

    It is made in the parent folder, or in `target` itself where the parent is not writable. If the work fails
    transiently (ActionFailed.transient) or is killed, the files named in `keep` remain, provided that the first of them
    exists: the next try of the step or the next attempt of the task gets the same folder with these files. Otherwise
    the folder starts empty."""
    parent, name = os.path.split(target)
    prefix = f".{name[:_LONGEST_NAME]}.kedge-"
    os.makedirs(parent, exist_ok=True)
    place = parent if os.access(parent, os.W_OK | os.X_OK) else target
    folder, lock = _swept(place, prefix, keep) or _locked_folder(place, prefix)
    keep_files = False
    try:
        yield folder
    except ActionFailed as failed:
        keep_files = failed.transient
        raise
    finally:
        if not (keep_files and _reduce(folder, keep)):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def put(source: str, target: str) -> None:
    """Move a file or a folder to `target`: in one step if the target does not exist or is an empty folder, else entry
    by entry, replacing files with the same names."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno not in _MOVE_ENTRIES or os.path.islink(source) or not os.path.isdir(source):
            raise
        for name in sorted(os.listdir(source)):
            put(os.path.join(source, name), os.path.join(target, name))
        os.rmdir(source)


def is_free(path: str) -> bool:
    """Whether the path does not exist or is an empty folder (ignoring the temporary folders of `beside`)."""
    try:
        prefix = f".{os.path.basename(path)[:_LONGEST_NAME]}.kedge-"
        return all(name.startswith(prefix) for name in os.listdir(path))
    except FileNotFoundError:
        return not os.path.islink(path)
    except NotADirectoryError:
        return False


def _locked_folder(place: str, prefix: str) -> tuple[str, int]:
    """A new folder, and the descriptor of the lock that protects it from being swept."""
    while True:
        folder = tempfile.mkdtemp(prefix=prefix, dir=place)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not _is_being_swept(lock) and os.path.exists(folder):
            return folder, lock
        os.close(lock)  # swept before it was locked


def _is_being_swept(lock: int) -> bool:
    """Lock a new folder. Only who sweeps can have locked it before, perhaps to hang on another machine."""
    with contextlib.suppress(OSError):  # a file system without locks, on which nobody sweeps
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _swept(place: str, prefix: str, keep: tuple[str, ...]) -> tuple[str, int] | None:
    """Remove folders that no process uses any more. One that has files to keep is returned instead, with its lock."""
    reusable = None
    for name in os.listdir(place) if os.path.isdir(place) else ():
        if not name.startswith(prefix):
            continue
        path = os.path.join(place, name)
        lock = _lock(path)
        if lock is not None and not reusable and _reduce(path, keep):
            reusable = path, lock
        elif lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
    return reusable


def _lock(path: str) -> int | None:
    """Lock a folder against sweeping and return the descriptor. None if it is in use, gone or not a folder."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.lstat(path)):
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _reduce(folder: str, keep: tuple[str, ...]) -> bool:
    """Remove all but the files to keep. True if the first of them exists and no other user can have written them: in a
    folder like /tmp, other users could plant files for us to find."""
    try:
        for entry in os.scandir(folder):
            if entry.name not in keep:
                _remove(entry)
        own, files = os.lstat(folder), [os.lstat(os.path.join(folder, name)) for name in os.listdir(folder)]
        ours = all(each.st_uid == os.geteuid() for each in (own, *files)) and not own.st_mode & 0o022
        plain = all(stat.S_ISREG(each.st_mode) and each.st_nlink == 1 for each in files)
        return bool(keep) and ours and plain and os.path.getsize(os.path.join(folder, keep[0])) > 0
    except OSError:
        return False


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        os.unlink(entry.path)
