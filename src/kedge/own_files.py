"""Files of kedge's own in folders where tasks may make anything: opening them to write, and deleting them.

No link is followed, nobody waits for a pipe, read-only folders are opened up, and what is nested too deeply for a path
or a stack goes, too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from kedge.untrusted import FOLDER

_NO_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})  # as open(2) says of a link, a folder, a pipe
_INSIDE = FOLDER | os.O_NOFOLLOW
_MOST_MISSES = 100  # times that somebody has put something there between two looks


def open_own(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a regular file for writing, made if it is not there. What a task has put in its place (a link, a pipe, a
    folder) is deleted. OSError."""
    for _ in range(_MOST_MISSES):
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
        else:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return fd
            os.close(fd)
        clear(path)
    raise FileExistsError(errno.EEXIST, "something else is put there again and again", os.fspath(path))


def clear(path: str | os.PathLike[str]) -> None:
    """Delete a folder; a link or a file, where that is what `path` is.

    What has gone meanwhile is no error: somebody else deletes it, too. OSError, with the path as its `filename`, for
    what cannot be deleted.
    """
    try:
        top = os.open(path, _INSIDE)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
            raise
        _gone(os.unlink, os.fspath(path), None)
        return
    try:
        _Clearing(top).empty(os.fspath(path))
    finally:
        os.close(top)


class _Clearing:
    """Empties the folder `top`: each folder in it, after the folders in that were moved up to `top`, so that nothing is
    ever deeper than one."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._numbers = count()
        self._misses = 0

    def empty(self, path: str) -> None:
        try:
            while folders := _entries(self._top)[0]:
                for name in folders:
                    self._flatten(name)
            for name in _entries(self._top)[1]:
                _gone(os.unlink, name, self._top)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{path}/{error.filename or ''}") from error
        if not self._rmdir(path, None):
            self.empty(path)

    def _flatten(self, name: str) -> None:
        """Delete a folder."""
        with suppress(FileNotFoundError):
            _open_up(name, self._top)
            inner = os.open(name, _INSIDE, dir_fd=self._top)
            try:
                folders, files = _entries(inner)
                for file in files:
                    _gone(os.unlink, file, inner)
                for folder in folders:
                    self._move_up(folder, inner)
            finally:
                os.close(inner)
            self._rmdir(name, self._top)

    def _move_up(self, folder: str, inner: int) -> None:
        _open_up(folder, inner)  # one that may not be written to may not be moved either
        new = f".cleared-{os.getpid()}-{next(self._numbers)}"
        with suppress(FileNotFoundError):
            os.rename(folder, new, src_dir_fd=inner, dst_dir_fd=self._top)

    def _rmdir(self, name: str, folder: int | None) -> bool:
        """Whether it is gone, and not filled again by somebody."""
        try:
            _gone(os.rmdir, name, folder)
        except OSError as error:
            self._misses += 1
            if error.errno != errno.ENOTEMPTY or self._misses > _MOST_MISSES:
                raise
            return False
        return True


def _open_up(name: str, folder: int) -> None:
    """Caches of packages and modules are often made read-only."""
    with suppress(FileNotFoundError, PermissionError):  # another user's may be empty, or writable for all
        os.chmod(name, 0o700, dir_fd=folder)


def _entries(fd: int) -> tuple[list[str], list[str]]:
    """The names of folders, and of everything else."""
    with os.scandir(fd) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return [name for name, is_folder in found if is_folder], [name for name, is_folder in found if not is_folder]


def _gone(how: Callable[..., None], name: str, folder: int | None) -> None:
    with suppress(FileNotFoundError):
        how(name, dir_fd=folder)
