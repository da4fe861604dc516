"""Locks of files (flock) on file systems that may have none, or whose server does not answer about them."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
from contextlib import suppress
from pathlib import Path

from kedge.errors import CannotRun
from kedge.own_files import open_own

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_PROBE = ".lock-probe"
ADVICE = (
    "mount it with file locks (Lustre: the option flock; NFS: without nolock, and with its lock service), "
    "or set XDG_STATE_HOME to a folder on another file system that all nodes share"
)


class FileIsLocked(CannotRun, TimeoutError):
    """Another process has kept a file locked for too long."""


def flock(fd: int, kind: int, path: Path) -> None:
    """fcntl.flock. BlockingIOError with LOCK_NB; CannotRun: the file system has no locks."""
    try:
        fcntl.flock(fd, kind)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        why = os.strerror(error.errno or 0)
        raise CannotRun(
            f"{path.parent} is on a file system on which files cannot be locked ({why}): {ADVICE}"
        ) from error


def why_not(folder: Path, patience_sec: float) -> str:
    """Why files in a folder cannot be locked; empty if they can. A file system may never answer, so another process
    asks, and is left behind after `patience_sec`."""
    path = folder / f"{_PROBE}-{os.uname().nodename}-{os.getpid()}"
    pid = os.fork()
    if pid == 0:
        os._exit(_tried(path))
    answer = _exit_code(pid, patience_sec)
    if answer is None:
        return f"nothing has answered for {patience_sec:g} s"
    with suppress(OSError):
        path.unlink()
    return os.strerror(answer) if answer else ""


def _tried(path: Path) -> int:
    """The error number of a try to lock this file; 0 if it works."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        fcntl.flock(open_own(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno if error.errno in _NO_LOCKS else 0  # other errors are not about locks
    return 0


def _exit_code(pid: int, patience_sec: float) -> int | None:
    """That of a child; None if it has not ended in time."""
    fd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(patience_sec * 1000):
            os.kill(pid, signal.SIGKILL)
            return None
    finally:
        os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
