"""The parent of a program that has a deadline: it starts the program, and everything that this starts stays below it,
whatever session or environment it chooses, so that all of it can be found and ended. It ends when the program does;
when whoever has started it dies, it ends the program first. When a signal has ended the program, what that had started
ends with it.

    python -I -S guard.py PARENT_PID ANSWER_FD PROGRAM ARGUMENT...

To ANSWER_FD goes one line: `exit STATUS`, the program's wait status, or `error ERRNO` if it could not be executed.
A program by itself, which imports next to nothing: it must start fast.
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


def main(parent: int, answer: int, argv: list[str]) -> None:
    os.set_inheritable(answer, False)
    if sys.platform.startswith("linux"):
        _watch(parent)
    try:
        program = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=_IGNORED_BY_PYTHON)
    except OSError as error:
        os.write(answer, b"error %d\n" % (error.errno or 0))
        return
    _let_go_of_pipes()
    while (ended := os.wait())[0] != program:
        continue  # an orphan
    if os.WIFSIGNALED(ended[1]) and sys.platform.startswith("linux"):
        _end_below()  # it could not do so itself
    os.write(answer, b"exit %d\n" % ended[1])


def _watch(parent: int) -> None:
    """Become the one to whom orphans come, and who hears when the parent dies."""
    signal.signal(signal.SIGTERM, _end_all)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it was faster
        os._exit(1)


def _end_all(number: int, frame: FrameType | None) -> None:
    _end_below()
    os._exit(128 + number)


def _end_below() -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    importlib.import_module("kedge.processes").kill_orphans(())


def _let_go_of_pipes() -> None:
    """They are the program's: its reader and its writer must see when that closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
