"""The lock that says that a run's controller is alive: flock on the run's lock file.

The kernel drops it when the controller ends, in whatever way. The descriptor is inherited by the controller alone, so a
task that outlives it does not keep it: the submitter takes the lock, starts the controller with it, signs for it, and
lets go, so that there is no moment in which the run looks lost.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import NamedTuple

from kedge.contract import timestamp
from kedge.errors import CannotRun
from kedge.own_files import open_own
from kedge.runs.atomic_files import disk_errors, write_all
from kedge.untrusted import fits, open_regular, read_json

_LARGEST = 4096  # bytes
_PIDS = 1 << 22  # the kernel's are smaller
_PROBES_LAST = 5.0  # seconds; a probe holds its shared lock for microseconds


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
        """Write the process into the lock file as the owner: this one, or another that has inherited the lock."""
        owner = Owner(pid or os.getpid(), socket.gethostname(), timestamp(time.time_ns()))
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, json.dumps(owner._asdict()).encode())


def hold(path: Path) -> ControllerLock:
    """Take the lock, or CannotRun when another controller has it."""
    with disk_errors(path):
        lock = ControllerLock(open_own(path, os.O_RDWR))
        try:
            if not _acquire(lock.fileno()):
                raise CannotRun(f"{path.parent.name} is run by another process{shown(owner(path))}")
            lock.sign()
        except BaseException:
            lock.close()
            raise
    return lock


def is_held(path: Path) -> bool:
    """Whether a controller holds the lock now. A controller that takes it in this moment is not kept from it."""
    try:
        fd = open_regular(path.parent, path.name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    try:
        return not _try(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def owner(path: Path) -> Owner | None:
    """What the lock file says; it is true only while the lock is held. None when it says nothing."""
    try:
        owner = Owner(**read_json(path.parent, path.name, _LARGEST))
    except (OSError, ValueError, TypeError):
        return None
    return owner if fits(owner, Owner) and 0 < owner.pid < _PIDS else None


def _acquire(fd: int) -> bool:
    # Probes (is_held) hold shared locks for a moment. Where a shared lock can be had, no controller has the lock, and
    # the exclusive one will be there soon.
    end = time.monotonic() + _PROBES_LAST
    while not _try(fd, fcntl.LOCK_EX):
        if not _try(fd, fcntl.LOCK_SH) or time.monotonic() > end:
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(0.001)
    return True


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def shown(owner: Owner | None) -> str:
    """The owner in brackets, to be put after what it does; empty when it is not known."""
    return f" (pid {owner.pid} on {owner.host}, since {owner.since})" if owner else ""
