"""Lock files that all users of a machine share, one per GPU, in a folder like /tmp: everybody may add, nobody remove.

Nothing is ever written to them and none is ever deleted, so it does not matter who made a file. A file that exists is
opened without O_CREAT, which the kernel may forbid for other users' files in such a folder (fs.protected_regular).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from pathlib import Path

from kedge.errors import CannotRun

LOCKS = Path("/tmp/kedge-gpus")  # noqa: S108  made to be safe there

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SHARED = 0o1777


class LockFolder:
    """The folder with the locks, made if need be. CannotRun when it is not one that can be trusted with them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not os.path.lexists(path):
            make_shared(path)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise CannotRun(f"{path}: cannot be used to share out GPUs: {error.strerror}") from error
        mode = os.fstat(self._fd).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            os.close(self._fd)
            raise CannotRun(f"{path}: anybody can delete files in it; its mode must be 1777, as that of /tmp")

    def __enter__(self) -> LockFolder:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)

    def lock(self, name: str) -> int | None:
        """A descriptor that holds the lock of that name, or None when somebody else has it."""
        file = re.sub(r"[^A-Za-z0-9-]", "_", name)
        while True:
            try:
                fd = self._open(file)
            except PermissionError:  # its owner has just made it, or keeps everybody else out
                return None
            if not _try_lock(fd):
                os.close(fd)
                return None
            if os.fstat(fd).st_nlink:
                return fd
            os.close(fd)  # deleted by an administrator between opening and locking

    def _open(self, file: str) -> int:
        while True:
            try:
                fd = os.open(file, _FLAGS, dir_fd=self._fd)
            except FileNotFoundError:
                try:
                    fd = os.open(file, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=self._fd)
                except FileExistsError:
                    continue
                os.fchmod(fd, 0o644)  # whatever the umask, for the other users
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise CannotRun(f"{self._path / file} is a link; remove it") from error
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return fd
            os.close(fd)
            raise CannotRun(f"{self._path / file} is not a plain file; remove it")


def make_shared(path: Path) -> None:
    """Make the folder appear with its mode already right, so that nobody meets it half-made."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.mkdir()
        (new / ".made").touch()  # an empty folder would be replaced by the next one that is renamed to its place
        new.chmod(_SHARED)
        new.rename(path)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        if not os.path.lexists(path):  # otherwise somebody else was faster
            raise CannotRun(f"{path}: cannot be made to share out GPUs: {error.strerror}") from error


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
