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
from typing import NoReturn

from kedge import command_line, processes
from kedge.processes import Process

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
# Signals that a submitter sends to the process it started, but that are meant for the controller.
_PASSED_ON = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
_above: list[Process] = []
_named: list[int] = []  # the descriptor through which the keeper gets its command line


def stand_above(close: Iterable[int]) -> None:
    """Fork: the call returns only in the child. This process closes the descriptors `close` and becomes the keeper of
    the child. On other systems than Linux, do nothing."""
    if not sys.platform.startswith("linux"):
        return
    keeper = processes.identify(os.getpid())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    name, named = os.pipe()
    child = os.fork()
    if child:
        for fd in (*close, named):
            os.close(fd)
        _keep(child, name)
    os.close(name)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _above.extend([keeper] if keeper else [])
    _named.append(named)


def show(argv: Sequence[str]) -> None:
    """Let `ps` show this command line for this process and its keeper, instead of their own, which are as long."""
    command_line.show(argv)
    if _named:
        with suppress(BrokenPipeError), open(_named.pop(), "w") as named:  # it may have been killed
            json.dump(argv, named)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process. On other systems than Linux, do nothing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def above() -> Process | None:
    """The keeper of this process, if it has one."""
    return _above[0] if _above else None


def _keep(child: int, name: int) -> NoReturn:
    """Pass signals on and reap until no process is left below, then end the way `child` ended."""
    become_subreaper()
    with open(name) as named, suppress(ValueError):  # `child` has ended without a name, or while it wrote it
        command_line.show(json.load(named))  # nothing is below `child` before, and the signals wait
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
