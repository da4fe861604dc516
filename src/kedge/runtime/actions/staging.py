"""Making a folder or a file aside and putting it in its place when it is whole."""

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

_LONGEST_NAME = 50  # characters of a target's name, so that names of 255 bytes have room for more
_ELSEWHERE = frozenset({errno.EXDEV, errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST})


@contextlib.contextmanager
def beside(target: str, keep: tuple[str, ...] = ()) -> Iterator[str]:
    """A folder on the file system of `target`, removed at the end. What killed processes have left there goes, too.

    It lies in the parent folder, or in `target` itself where the parent cannot be written to. The files `keep`, the
    first of which must be there, stay if the work fails for now (ActionFailed.transient) or is killed: who works
    there next, in another try of the step or another attempt of the task, finds them in its folder. Other files are
    never there."""
    parent, name = os.path.split(target)
    prefix = f".{name[:_LONGEST_NAME]}.kedge-"
    os.makedirs(parent, exist_ok=True)
    place = parent if os.access(parent, os.W_OK | os.X_OK) else target
    folder, lock = _swept(place, prefix, keep) or _locked_folder(place, prefix)
    stays = False
    try:
        yield folder
    except ActionFailed as failed:
        stays = failed.transient
        raise
    finally:
        if not (stays and _reduced(folder, keep)):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def put(source: str, target: str) -> None:
    """Move a file or a folder to `target`: at once where nothing stands there (or an empty folder), else entry by
    entry, each of which replaces a file of its name."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno not in _ELSEWHERE or os.path.islink(source) or not os.path.isdir(source):
            raise
        for name in sorted(os.listdir(source)):
            put(os.path.join(source, name), os.path.join(target, name))
        os.rmdir(source)


def is_free(path: str) -> bool:
    """Whether nothing is there, or an empty folder (but for what `beside` keeps in it)."""
    try:
        prefix = f".{os.path.basename(path)[:_LONGEST_NAME]}.kedge-"
        return all(name.startswith(prefix) for name in os.listdir(path))
    except FileNotFoundError:
        return not os.path.islink(path)
    except NotADirectoryError:
        return False


def _locked_folder(place: str, prefix: str) -> tuple[str, int]:
    """A new folder that nobody sweeps away, and the descriptor that keeps it so."""
    while True:
        folder = tempfile.mkdtemp(prefix=prefix, dir=place)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(folder):
            return folder, lock
        os.close(lock)  # swept before it was locked


def _swept(place: str, prefix: str, keep: tuple[str, ...]) -> tuple[str, int] | None:
    """Remove what nobody uses any more, but for one folder with files to keep: that, and its lock."""
    found = None
    for name in os.listdir(place) if os.path.isdir(place) else ():
        if not name.startswith(prefix):
            continue
        path = os.path.join(place, name)
        lock = _lock(path)
        if lock is not None and not found and _reduced(path, keep):
            found = path, lock
        elif lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
    return found


def _lock(path: str) -> int | None:
    """A descriptor that keeps a folder from being swept; None if it is in use, is gone, or is no folder of ours."""
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


def _reduced(folder: str, keep: tuple[str, ...]) -> bool:
    """Remove all but the files to keep. Whether the first of them is there, and nobody else can have written them: in a
    folder like /tmp others may have laid them out for us."""
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
