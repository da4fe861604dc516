"""The guard: the parent process of a program that has a deadline.

    python -I -S program_guard.py PARENT_PID RESULT_FD PROGRAM ARGUMENT...

It starts the program. All processes that the program starts stay below the guard, whatever their session or
environment, so that they can be found and ended. The guard ends when the program does. If the guard's own parent dies,
it ends the program first. If a signal kills the program, the guard also ends all processes that the program started.

One line is written to RESULT_FD: `exit STATUS` with the program's wait status, or `error ERRNO` if it could not be
executed. This is a separate program that imports next to nothing, because it must start fast.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def main(parent: int, result: int, argv: list[str]) -> None:
    os.set_inheritable(result, False)
    if sys.platform.startswith("linux"):
        _adopt_orphans_and_watch(parent)
    try:
        program = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=_IGNORED_BY_PYTHON)
    except OSError as error:
        os.write(result, b"error %d\n" % (error.errno or 0))
        return
    _release_pipes()
    while (ended := os.wait())[0] != program:
        continue  # an orphan
    if os.WIFSIGNALED(ended[1]) and sys.platform.startswith("linux"):
        _end_below()  # the killed program could not do so itself
    os.write(result, b"exit %d\n" % ended[1])


def _adopt_orphans_and_watch(parent: int) -> None:
    """Become a subreaper, and get SIGTERM when the parent dies."""
    signal.signal(signal.SIGTERM, _end_all)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # the parent has died already
        os._exit(1)


def _end_all(number: int, frame: FrameType | None) -> None:
    _end_below()
    os._exit(128 + number)


def _end_below() -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    importlib.import_module("kedge.processes").kill_orphans(())


def _release_pipes() -> None:
    """Close this process's copies of the program's pipes, so that the readers notice when the program closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
