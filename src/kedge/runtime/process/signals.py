"""Which signals the supervisor takes, and how a child gets them back as they were."""

from __future__ import annotations

import signal
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
FORWARDED = frozenset(
    {
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGCONT,
        signal.SIGTSTP,
        signal.SIGALRM,
        signal.SIGPWR,
        *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
    }
)
# Python ignores these two for itself; programs expect the default.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def take_over() -> None:
    """Let every signal that concerns the task wake the loop. A hang-up that is ignored (nohup) stays ignored."""
    for number in (signal.SIGCHLD, *STOPS, *FORWARDED):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _noted)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def block() -> None:
    """Hold all signals back, around a fork."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())


def unblock() -> None:
    """Let signals through again."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def give_back() -> None:
    """In a forked child with all signals blocked: defaults everywhere, nothing blocked, the parent's pipe untouched."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, *STOPS, *FORWARDED, *_IGNORED_BY_PYTHON):
        signal.signal(number, signal.SIG_DFL)
    unblock()


def by_name(name: str) -> int:
    """The number of `TERM`, `USR1`, … ValueError if there is no such signal."""
    number = getattr(signal, f"SIG{name}", None)
    if not isinstance(number, signal.Signals):
        raise ValueError(f"there is no signal {name!r}")
    return number


def name_of(number: int) -> str:
    """`TERM` for 15; `RTMIN+1` and the like are shown as numbers."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """The number has reached the loop through the wake-up descriptor already."""
