"""Which signals the supervisor handles, and how a child's signals are reset to their defaults."""

from __future__ import annotations

from kedge.light import signal
from kedge.light.types import Collection

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
NOTICE = signal.SIGPWR  # the task will be stopped soon
FORWARDED = frozenset(
    {
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGCONT,
        signal.SIGTSTP,
        signal.SIGALRM,
        *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
    }
)
_NUMBERS = {name[3:]: int(number) for name, number in vars(signal).items() if name[:3] == "SIG" and name[3:4].isalpha()}
# Python ignores these two in its own process; programs expect the default.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def take_over() -> None:
    """Make every signal that concerns the task wake the loop. An ignored SIGHUP (nohup) stays ignored."""
    for number in (signal.SIGCHLD, NOTICE, *STOPS, *FORWARDED):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def block(numbers: Collection[int] | None = None) -> None:
    """Block these signals alone, or all, around a fork."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() if numbers is None else numbers)


def unblock() -> None:
    """Unblock all signals."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def give_back() -> None:
    """In a forked child whose signals are all blocked: restore the default actions, then unblock. Nothing is written to
    the parent's wake-up pipe."""
    restore_defaults()
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    unblock()


def restore_defaults() -> None:
    """In a forked process: restore the default actions of all signals that this one may have changed. Nothing is
    written to its wake-up pipe any more."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, NOTICE, *STOPS, *FORWARDED):
        signal.signal(number, signal.SIG_DFL)


def by_name(name: str) -> int:
    """The number of the signal `TERM`, `USR1` and so on. ValueError if there is no such signal."""
    if name not in _NUMBERS:
        raise ValueError(f"there is no signal {name!r}")
    return _NUMBERS[name]


def name_of(number: int) -> str:
    """The name of a signal, such as `TERM` for 15; real-time signals without a name are shown as numbers."""
    return min((name for name, each in _NUMBERS.items() if each == number), default=str(number))  # CHLD, not CLD


def _handler(_number: int, _frame: object) -> None:
    """Does nothing: the loop receives the number through the wake-up descriptor."""
