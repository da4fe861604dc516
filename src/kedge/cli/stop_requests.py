"""Ctrl-C, SIGTERM and a terminal that is closed, while a job is submitted, while it runs, and when it has ended."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from kedge.controller.client import ASKING, Controller


class StopRequests:
    """A context in which a request to stop ends what is inside by a KeyboardInterrupt, so that nothing half-made is
    left; from `hand_to` on, it is the controller's; from `over` on, it ends the process at once, with the exit code of
    the job. As while the job runs, only a hang-up may be ignored (nohup).

    Only for a command that is about to end: after `over`, the requests stay without effect.
    """

    def __init__(self) -> None:
        self._controller: Controller | None = None
        self._code: int | None = None

    def __enter__(self) -> StopRequests:
        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
        self._previous: dict[Any, Any] = {n: signal.signal(n, self._asked) for n in ASKING if n not in ignored}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if self._code is None else signal.SIG_IGN)

    def hand_to(self, controller: Controller) -> None:
        """From now on the controller is asked."""
        self._controller = controller

    def over(self, code: int) -> None:
        """The job has ended, and `kedge run` is to end with `code`."""
        self._code = code

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self._code is not None:
            os._exit(self._code)
        if self._controller is None:
            raise KeyboardInterrupt
        self._controller.signal(number)
