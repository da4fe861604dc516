"""The keeper: the parent process of a controller, which adopts orphans when supervisors and then the controller die.

It only keeps the orphans below itself, where they can be found, and ends when no process is left below it. It is forked
before the controller loads its modules, so it costs next to nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from kedge import command_line, processes
from kedge.processes import Process

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
# Signals that a submitter sends to the process it started, but that are meant for the controller.
_PASSED_ON = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
_above: list[Process] = []
_told: list[int] = []  # the descriptor through which the keeper gets its command line, then folders to remove


def stand_above(close: Iterable[int]) -> None:
    """Fork: the call returns only in the child. This process closes the descriptors `close` and becomes the keeper of
    the child. On other systems than Linux, do nothing."""
    if not sys.platform.startswith("linux"):
        return
    keeper = processes.identify(os.getpid())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    orders, told = os.pipe()
    child = os.fork()
    if child:
        for fd in (*close, told):
            os.close(fd)
        _keep(child, orders)
    os.close(orders)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _above.extend([keeper] if keeper else [])
    _told.append(told)


def show(argv: Sequence[str]) -> None:
    """Let `ps` show this command line for this process and its keeper, instead of their own, which are as long."""
    command_line.show(argv)
    _tell(argv)


def remove_at_end(folder: str) -> bool:
    """Let the keeper remove this folder, which is empty then, once this process and all below it have ended. False
    without a keeper."""
    return _tell(folder)


def _tell(order: Any) -> bool:
    try:
        for keeper in _told:
            os.write(keeper, (json.dumps(order) + "\n").encode())
    except BrokenPipeError:  # it was killed
        _told.clear()
    return bool(_told)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process. On other systems than Linux, do nothing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def above() -> Process | None:
    """The keeper of this process, if it has one."""
    return _above[0] if _above else None


def _keep(child: int, told: int) -> NoReturn:
    """Pass signals on and reap until no process is left below, then do the last orders of `child`, and end the way it
    ended."""
    become_subreaper()
    orders = open(told, "rb")  # noqa: SIM115  open as long as the process lives
    with suppress(ValueError):  # `child` has ended without a run
        command_line.show(json.loads(orders.readline()))  # nothing is below `child` before, and the signals wait
    ended: dict[int, int] = {}
    while _reap(ended, child):
        number = signal.sigwait({*_PASSED_ON, signal.SIGCHLD})
        if number != signal.SIGCHLD and child not in ended:
            with suppress(PermissionError):
                os.kill(child, number)
    for order in orders:
        with suppress(OSError, ValueError):
            os.rmdir(json.loads(order))
    code = os.waitstatus_to_exitcode(ended[child])
    if code < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(code)


def _reap(ended: dict[int, int], child: int) -> bool:
    """Reap all processes that have ended, and record the status of `child`. False when no process is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == child:
            ended[pid] = status
