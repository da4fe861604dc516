"""Waiting for a lock (flock) with words and a deadline: where machines share a file system, its holder may be a process
that hangs on another one, and nothing else would tell which."""

from __future__ import annotations

import fcntl
import os
import time

from kedge.late_patterns import late_pattern
from kedge.light.types import Callable

_SHORTEST_SEC, _LONGEST_SEC = 0.01, 0.5  # between two tries
_HOLDER = late_pattern(rb"pid [0-9]{1,20} on [A-Za-z0-9._-]{1,255}")  # the file is not only ours to write
_UNKNOWN = "another process"


class StillLocked(TimeoutError):
    """Nothing has moved for too long. The text is who holds the lock."""


def lock(
    fd: int,
    kind: int,
    patience_sec: float,
    say: Callable[[str], object],
    *,
    quiet_sec: float = 5.0,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Lock a file, fcntl.LOCK_EX or LOCK_SH. StillLocked: for `patience_sec` seconds another process has held it and
    what `progress` returns has not changed. OSError: its file system has no locks.

    `say` is told once, after `quiet_sec`, who holds it. For that, whoever locks it exclusively writes it into the file.
    """
    began = moved = time.monotonic()
    state, pause, has_said = progress(), _SHORTEST_SEC, False
    while not _tried(fd, kind):
        now = time.monotonic()
        if not has_said and now - began >= quiet_sec:
            has_said = True
            say(holder(fd))
        if (seen := progress()) != state:
            state, moved = seen, now
        if now - moved >= patience_sec:
            raise StillLocked(holder(fd))
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_SEC)


def _tried(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    if kind == fcntl.LOCK_EX:
        text = f"pid {os.getpid()} on {os.uname().nodename}".encode()
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
    return True


def holder(fd: int) -> str:
    """Who holds the exclusive lock of this file."""
    found = _HOLDER.match(os.pread(fd, 300, 0))
    return found[0].decode() if found else _UNKNOWN
