"""Which ports belong to jobs that run: a lock on byte N of one file that all users of the machine share is port N's.

A task's socket is closed when its command starts, and the command may bind the port seconds later; until the task has
ended, no other job gets it. The locks belong to an open file description (fcntl(2), F_OFD_SETLK), so they last as long
as the controller or any supervisor that it has passed the descriptor to.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

LOCKS = Path("/tmp/kedge-ports")  # noqa: S108  nothing is ever written to it

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FLOCK = "hhqqi"  # struct flock: type, whence, start, length, pid


class PortLocks:
    """The ports of one job attempt. Where the file cannot be had, every port can be taken, and none is remembered."""

    def __init__(self, path: Path = LOCKS) -> None:
        self.fd = _open(path)

    def take(self, port: int) -> bool:
        """Mark a port as ours; False when another job has it."""
        return self.fd is None or self._set(port, fcntl.F_WRLCK)

    def give_back(self, port: int) -> None:
        """It was no use: something else has the port."""
        if self.fd is not None:
            self._set(port, fcntl.F_UNLCK)

    def close(self) -> None:
        """Let go of all ports, but for the tasks that have the descriptor."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def _set(self, port: int, kind: int) -> bool:
        assert self.fd is not None
        try:
            fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, port, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True


def _open(path: Path) -> int | None:
    """The file, made if need be. One that exists is opened without O_CREAT, which fs.protected_regular may forbid."""
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        pass
    except OSError:
        return None
    try:
        fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(fd, 0o666)  # whatever the umask, for the other users
    except FileExistsError:
        return _open(path)
    except OSError:
        return None
    return fd
