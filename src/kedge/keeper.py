"""The process above a controller, to whom orphans come when supervisors and then their controller were killed.

It does nothing but keep them below it, where they are found, and ends when nothing is below it any more. It is a fork
of the controller from before that has loaded anything, so it costs next to nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

from kedge import processes
from kedge.processes import Process

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
# What a submitter sends to the process that it has started, and means for the controller.
_PASSED_ON = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
_above: list[Process] = []


def stand_above(close: Iterable[int]) -> None:
    """Returns in a new process; this one becomes its keeper, without the descriptors `close`, and never returns. Linux
    only; elsewhere nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    keeper = processes.identify(os.getpid())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    child = os.fork()
    if child:
        for fd in close:
            os.close(fd)
        _keep(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _above.extend([keeper] if keeper else [])


def become_subreaper() -> None:
    """Let the orphans of what this process has started become its children. Linux only; elsewhere nothing happens."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def above() -> Process | None:
    """The keeper of this process, if it has one."""
    return _above[0] if _above else None


def _keep(child: int) -> NoReturn:
    """Until nothing is left below, and then end as `child` did."""
    become_subreaper()
    ended: dict[int, int] = {}
    while _reap(ended, child):
        number = signal.sigwait({*_PASSED_ON, signal.SIGCHLD})
        if number != signal.SIGCHLD and child not in ended:
            with suppress(PermissionError):
                os.kill(child, number)
    code = os.waitstatus_to_exitcode(ended[child])
    if code < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(code)


def _reap(ended: dict[int, int], child: int) -> bool:
    """Collect what has ended, and the status of `child`; False when nothing is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == child:
            ended[pid] = status
