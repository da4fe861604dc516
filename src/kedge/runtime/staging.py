"""Making a folder or a file aside and putting it in its place when it is whole."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator

_ELSEWHERE = frozenset({errno.EXDEV, errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST})


@contextlib.contextmanager
def beside(target: str) -> Iterator[str]:
    """A new folder on the file system of `target`, removed at the end. What killed processes have left there goes, too.

    It lies in the parent folder, or in `target` itself where the parent cannot be written to."""
    parent, name = os.path.split(target)
    prefix = f".{name}.kedge-"
    os.makedirs(parent, exist_ok=True)
    place = parent if os.access(parent, os.W_OK | os.X_OK) else target
    _sweep(place, prefix)
    folder, lock = _locked_folder(place, prefix)
    try:
        yield folder
    finally:
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
        return all(name.startswith(f".{os.path.basename(path)}.kedge-") for name in os.listdir(path))
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


def _sweep(place: str, prefix: str) -> None:
    for name in os.listdir(place) if os.path.isdir(place) else ():
        path = os.path.join(place, name)
        if not name.startswith(prefix) or os.path.islink(path) or not os.path.isdir(path):
            continue
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # in use
            continue
        finally:
            os.close(lock)
