"""The lock that shows that a run's controller is alive: flock on the run's lock file.

The kernel releases it however the controller ends. Only the controller inherits the descriptor, so a task that outlives
the controller does not hold the lock. The submitter takes the lock, passes it on to the controller, signs it in the
controller's name and closes its own descriptor, so that the run never looks lost in between.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

from kedge.contract import timestamp
from kedge.errors import CannotRun
from kedge.own_files import open_own, write_all
from kedge.runs.atomic_files import disk_errors
from kedge.runs.file_locks import flock
from kedge.untrusted import open_regular, read_json
from kedge.untrusted_values import fits

RELEASE = signal.SIGALRM  # asks a controller to end the hold of a failed task
_LARGEST = 4096  # bytes
_PIDS = 1 << 22  # the kernel's pids are smaller
_PROBE_PATIENCE_SEC = 5.0  # far longer than probes hold their shared lock, which is microseconds


class Owner(NamedTuple):
    """Who holds, or last held, a lock."""

    pid: int
    host: str
    since: str


class ControllerLock:
    """A held lock; closing it, or the end of the process, releases it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> ControllerLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def sign(self, pid: int | None = None) -> None:
        """Write the owner into the lock file: this process, or the process `pid` that has inherited the lock."""
        owner = Owner(pid or os.getpid(), os.uname().nodename, timestamp(time.time_ns()))
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, json.dumps(owner._asdict()).encode())


def hold(path: Path) -> ControllerLock:
    """Take the lock. CannotRun if another controller holds it, or files cannot be locked there."""
    with disk_errors(path):
        lock = ControllerLock(open_own(path, os.O_RDWR))
        try:
            if not _acquire(lock.fileno(), path):
                raise CannotRun(f"{path.parent.name} is controlled by another process{shown(owner(path))}")
            lock.sign()
        except BaseException:
            lock.close()
            raise
    return lock


def is_held(path: Path) -> bool:
    """Whether a controller holds the lock now. Does not prevent a controller from taking it at the same moment."""
    try:
        fd = open_regular(path.parent, path.name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    try:
        return not _try(fd, fcntl.LOCK_SH, path)
    finally:
        os.close(fd)


def owner(path: Path) -> Owner | None:
    """The owner named in the lock file, which is true only while the lock is held. None if the file is unreadable."""
    try:
        owner = Owner(**read_json(path.parent, path.name, _LARGEST))
    except (OSError, ValueError, TypeError):
        return None
    return owner if fits(owner, Owner) and 0 < owner.pid < _PIDS else None


def _acquire(fd: int, path: Path) -> bool:
    # Probes (is_held) hold shared locks for a moment. If a shared lock can be taken, no controller holds the lock, and
    # the exclusive lock will be available soon.
    end = time.monotonic() + _PROBE_PATIENCE_SEC
    while not _try(fd, fcntl.LOCK_EX, path):
        if not _try(fd, fcntl.LOCK_SH, path) or time.monotonic() > end:
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(0.001)
    return True


def _try(fd: int, kind: int, path: Path) -> bool:
    try:
        flock(fd, kind | fcntl.LOCK_NB, path)
    except BlockingIOError:
        return False
    return True


def shown(owner: Owner | None) -> str:
    """The owner in brackets, to be appended to a message; empty if unknown."""
    return f" (pid {owner.pid} on {owner.host}, since {owner.since})" if owner else ""
