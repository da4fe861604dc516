"""Being the parent of everything below: subreaper, reaping, and ending what is left."""

from __future__ import annotations

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def become_subreaper() -> None:
    """Let orphans of this process's descendants become its children, whatever session they are in.

    PID 1 is that already. OSError where the kernel refuses (it is Linux 3.4 or newer everywhere else)."""
    if os.getpid() != 1 and ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("cannot become a child subreaper")


class Children:
    """Collects every child that ends, and keeps the wait status of those that somebody waits for."""

    def __init__(self) -> None:
        self._awaited: dict[int, int | None] = {}

    def expect(self, pid: int) -> None:
        """Keep the status of `pid` when it ends."""
        self._awaited[pid] = None

    def status(self, pid: int) -> int | None:
        """The wait status of an expected child, None while it runs."""
        return self._awaited[pid]

    def reap(self) -> bool:
        """Collect what has ended; False when no child, dead or alive, is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self._awaited:
                self._awaited[pid] = status
