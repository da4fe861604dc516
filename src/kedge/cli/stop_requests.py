"""Handles Ctrl-C, Ctrl-\\, SIGTERM and a closed terminal while a job is submitted, while it runs, and after its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from kedge.controller.client import STOP_SIGNALS

_DETACH = signal.SIGQUIT


class Detached(KeyboardInterrupt):
    """The user pressed Ctrl-\\: the command ends, and a job that was submitted continues."""


class Stoppable(Protocol):
    """The controller of a run, as a viewer needs it. `outlives_terminal`: the job runs in a cluster, so the end of a
    terminal on a login node means nothing to it."""

    @property
    def outlives_terminal(self) -> bool: ...

    def signal(self, number: int, /) -> None: ...


class StopRequests:
    """A context that handles requests to stop, and to detach. At first a request raises KeyboardInterrupt (Detached),
    so that nothing half-made is left behind. After `hand_to` a request to stop goes to the controller, and one to
    detach raises Detached in the context `detachable`; so does the closed terminal of a job in a cluster. After `over`
    any of them ends the process at once with the exit code of the command. SIGHUP and SIGQUIT stay ignored if they were
    (nohup).

    Use it only in a command that ends soon after: once `over` was called, the signals are ignored after the context.
    """

    def __init__(self) -> None:
        self._controller: Stoppable | None = None
        self._code: int | None = None
        self._detaching = self._detachable = False

    def __enter__(self) -> StopRequests:
        kept = (signal.SIGHUP, _DETACH)
        ignored = {number for number in kept if signal.getsignal(number) == signal.SIG_IGN}
        handled = [number for number in (*STOP_SIGNALS, _DETACH) if number not in ignored]
        self._previous: dict[Any, Any] = {number: signal.signal(number, self._on_signal) for number in handled}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if self._code is None else signal.SIG_IGN)

    def hand_to(self, controller: Stoppable) -> None:
        """From now on forward requests to the controller."""
        self._controller = controller

    @contextmanager
    def detachable(self) -> Iterator[None]:
        """A context in which a request to detach, also one since `hand_to`, raises Detached."""
        self._detachable = True
        try:
            if self._detaching:
                raise Detached
            yield
        finally:
            self._detachable = False

    def over(self, code: int) -> None:
        """The job has ended or the user has detached, and the command must exit with `code`."""
        self._code = code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._code is not None:
            os._exit(self._code)
        controller = self._controller
        if number == _DETACH or (number == signal.SIGHUP and controller and controller.outlives_terminal):
            self._detach()
        elif controller is None:
            raise KeyboardInterrupt
        else:
            controller.signal(number)

    def _detach(self) -> None:
        self._detaching = True
        if self._detachable or self._controller is None:
            raise Detached
