"""Adopting and reaping every process below this one."""

from __future__ import annotations

import os

from kedge.light.types import Callable
from kedge.runtime.process import c_library

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, whatever session they are in.

    PID 1 is a subreaper already. OSError where the kernel refuses (Linux before 3.4)."""
    if os.getpid() != 1 and c_library.call(c_library.address("prctl"), _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("cannot become a child subreaper")


def exist() -> bool:
    """Whether this process has a child, dead or alive. A subreaper without one has no descendants either, and need not
    look for them among all processes of the machine."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class Children:
    """Reaps every child that ends, keeps the wait status of the expected ones, and reports that of the watched ones."""

    def __init__(self) -> None:
        self._awaited: dict[int, int | None] = {}
        self._watched: dict[int, Callable[[int], None]] = {}

    def expect(self, pid: int) -> None:
        """Keep the status of `pid` when it ends."""
        self._awaited[pid] = None

    def watch(self, pid: int, on_end: Callable[[int], None]) -> None:
        """Call `on_end(wait_status)` when `pid` has ended."""
        self._watched[pid] = on_end

    def status(self, pid: int) -> int | None:
        """The wait status of an expected child, None while it runs."""
        return self._awaited[pid]

    def reap(self) -> bool:
        """Reap all children that have ended. False when no child, dead or alive, is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self._awaited:
                self._awaited[pid] = status
            if on_end := self._watched.pop(pid, None):
                on_end(status)
