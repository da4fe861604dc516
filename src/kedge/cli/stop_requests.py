"""Handles Ctrl-C, SIGTERM and a closed terminal while a job is submitted, while it runs, and after it has ended."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from kedge.controller.client import STOP_SIGNALS, Controller


class StopRequests:
    """A context that handles requests to stop. At first a request raises KeyboardInterrupt, so that nothing half-made
    is left behind. After `hand_to` it goes to the controller. After `over` it ends the process at once with the job's
    exit code. Of these signals only SIGHUP stays ignored if it was (nohup).

    Use it only in a command that ends soon after: once `over` was called, the signals are ignored after the context.
    """

    def __init__(self) -> None:
        self._controller: Controller | None = None
        self._code: int | None = None

    def __enter__(self) -> StopRequests:
        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
        handled = [number for number in STOP_SIGNALS if number not in ignored]
        self._previous: dict[Any, Any] = {number: signal.signal(number, self._on_signal) for number in handled}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if self._code is None else signal.SIG_IGN)

    def hand_to(self, controller: Controller) -> None:
        """From now on forward requests to the controller."""
        self._controller = controller

    def over(self, code: int) -> None:
        """The job has ended, and `kedge run` must exit with `code`."""
        self._code = code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._code is not None:
            os._exit(self._code)
        if self._controller is None:
            raise KeyboardInterrupt
        self._controller.signal(number)
