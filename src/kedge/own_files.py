"""Writing kedge's own files, and deleting folders, in places where tasks can create anything.

Links are not followed and pipes never block. Read-only folders are made writable, and folders nested too deeply for a
path or the stack are deleted too.
"""

from __future__ import annotations

import errno
import os
from itertools import count

from kedge.light.contextlib import suppress
from kedge.light.types import Callable
from kedge.untrusted import FOLDER, is_regular

_NOT_REGULAR = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})  # errors of open(2) for a link, a folder, a pipe
_INSIDE = FOLDER | os.O_NOFOLLOW
Buffer = bytes | bytearray | memoryview
_MAX_MISSES = 100  # how often another process may create something again after it was deleted


def open_own(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a regular file for writing, and create it if it does not exist. Anything else at the path (a link, a pipe, a
    folder that a task put there) is deleted first. OSError if that fails."""
    for _ in range(_MAX_MISSES):
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in _NOT_REGULAR:
                raise
        else:
            if is_regular(fd):
                return fd
        clear(path)
    raise FileExistsError(errno.EEXIST, "another process keeps creating something else there", os.fspath(path))


def write_all(fd: int, data: Buffer) -> None:
    """Write every byte of `data`: one write call may accept only a part of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o600, *, synced: bool = True) -> None:
    """Create or replace a file in one step: readers see what was there before or all of `data`. With `synced`, which
    takes a while, a crash of the machine does not leave a part of it either.

    Any number of processes may write the same file. An OSError leaves what was there before, and nothing else.
    """
    _write_and_move(os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.new"), path, data, mode, synced)


def replace_own(
    path: str | os.PathLike[str],
    temporary: str | os.PathLike[str],
    data: bytes,
    mode: int = 0o600,
    *,
    synced: bool = True,
) -> None:
    """Like `replace_file`, where tasks can create anything: whatever is at the path is deleted.

    The file has only one writer, so the data is first written to a file with a fixed name, `temporary`: what a killed
    writer has left there is deleted.
    """
    clear(temporary)
    try:
        _write_and_move(temporary, path, data, mode, synced)
    except IsADirectoryError:
        clear(path)
        _write_and_move(temporary, path, data, mode, synced)


def _write_and_move(
    temporary: str | os.PathLike[str], path: str | os.PathLike[str], data: bytes, mode: int, synced: bool
) -> None:
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(fd, data)
            if synced:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        clear(temporary)
        raise


def clear(path: str | os.PathLike[str]) -> None:
    """Delete a folder with its contents, or a file or link.

    Entries that disappear meanwhile are no error, because another process may be deleting them too. OSError, with the
    path as its `filename`, for anything that cannot be deleted.
    """
    try:
        top = os.open(path, _INSIDE)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        _remove(os.unlink, os.fspath(path), None)
        return
    try:
        _Clearing(top).empty(os.fspath(path))
    finally:
        os.close(top)


class _Clearing:
    """Empties the folder `top` one subfolder at a time. The folders inside a subfolder are moved up to `top` first, so
    that paths never have more than one level."""

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
                _remove(os.unlink, name, self._top)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{path}/{error.filename or ''}") from error
        if not self._rmdir(path, None):
            self.empty(path)

    def _flatten(self, name: str) -> None:
        """Delete the files in a subfolder, move its folders up, and delete it."""
        with suppress(FileNotFoundError):
            _make_writable(name, self._top)
            inner = os.open(name, _INSIDE, dir_fd=self._top)
            try:
                folders, files = _entries(inner)
                for file in files:
                    _remove(os.unlink, file, inner)
                for folder in folders:
                    self._move_up(folder, inner)
            finally:
                os.close(inner)
            self._rmdir(name, self._top)

    def _move_up(self, folder: str, inner: int) -> None:
        _make_writable(folder, inner)  # a folder that is not writable cannot be moved
        new = f".cleared-{os.getpid()}-{next(self._numbers)}"
        with suppress(FileNotFoundError):
            os.rename(folder, new, src_dir_fd=inner, dst_dir_fd=self._top)

    def _rmdir(self, name: str, folder: int | None) -> bool:
        """Remove an empty folder. False if another process has put something into it meanwhile."""
        try:
            _remove(os.rmdir, name, folder)
        except OSError as error:
            self._misses += 1
            if error.errno != errno.ENOTEMPTY or self._misses > _MAX_MISSES:
                raise
            return False
        return True


def _make_writable(name: str, folder: int) -> None:
    """Make a folder writable: caches of packages and modules are often read-only."""
    with suppress(FileNotFoundError, PermissionError):  # another user's folder may be empty, or writable for all
        os.chmod(name, 0o700, dir_fd=folder)


def _entries(fd: int) -> tuple[list[str], list[str]]:
    """The names of the folders in a folder, and of everything else in it."""
    with os.scandir(fd) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return [name for name, is_folder in found if is_folder], [name for name, is_folder in found if not is_folder]


def _remove(call: Callable[..., None], name: str, folder: int | None) -> None:
    with suppress(FileNotFoundError):
        call(name, dir_fd=folder)
