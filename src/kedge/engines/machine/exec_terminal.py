"""What `kedge exec` does with its own terminal and signals while a program runs beside a task."""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from kedge.engines.base import ExecRequest

_FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_FROM_KEYS = (signal.SIGINT, signal.SIGQUIT)  # the terminal sends them to the program as well


class ForwardedSignals:
    """Passes this process's signals on. Those that arrive before `send_to` or `call` is called are kept."""

    def __init__(self, ignored: tuple[signal.Signals, ...]) -> None:
        self._ignored = ignored
        self._early: list[int] = []
        self._send: Callable[[int], None] | None = None

    def call(self, send: Callable[[int], None]) -> None:
        """Pass signals to this function from now on."""
        self._send = send
        for number in self._early:
            send(number)

    def send_to(self, pid: int) -> None:
        """Send them to a child from now on."""

        def send(number: int) -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

        self.call(send)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """As a signal handler."""
        if number in self._ignored:
            return
        if self._send:
            self._send(number)
        else:
            self._early.append(number)


@contextmanager
def signals_for(request: ExecRequest, *, same_terminal: bool = True) -> Iterator[ForwardedSignals]:
    """A context in which signals of this process are for the program. `same_terminal`: the program is in the
    foreground of the same terminal, whose keys reach it without help."""
    shared = same_terminal and any(map(os.isatty, (0, 1, 2)))
    forwarded = ForwardedSignals(_FROM_KEYS if shared else ())
    before = {number: signal.signal(number, forwarded.receive) for number in _FORWARDED}
    try:
        yield forwarded
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def raw(active: bool) -> Iterator[None]:
    """A context in which every key goes to the program as it is, also Ctrl-C."""
    if not active:
        yield
        return
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed early is not lost
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def window(active: bool, resize: Callable[[int, int], None]) -> Iterator[None]:
    """A context in which `resize(rows, columns)` is called now and whenever the terminal's window changes."""

    def tell(_number: int = 0, _frame: FrameType | None = None) -> None:
        size = os.get_terminal_size(0)
        resize(size.lines, size.columns)

    if not active:
        yield
        return
    before = signal.signal(signal.SIGWINCH, tell)
    try:
        tell()
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
