"""Waiting for a TaskSpec that is written after the supervisor was started: in a pod, the agent beside it writes the
spec once it knows the addresses of the other tasks."""

from __future__ import annotations

import os
import time

from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.runtime.control import Control
from kedge.runtime.process import signals
from kedge.runtime.process.loop import Loop

WAITING = b"waiting\n"  # to the reader of the events: this process runs
_LOOK_SEC = 1.0  # between looks at the file, if nobody says that it is there


def wait(path: str, control: int | None, status: int | None = None) -> int | None:
    """Wait until the file exists, which appears as a whole. Returns None then, or a shell's exit code for the signal
    that has ended the wait when there was no file. Stop signals are blocked when it returns, until the
    attempt handles them."""
    loop = Loop()
    if status is not None:
        with suppress(OSError):
            os.write(status, WAITING)
    stops: list[int] = []

    def stop(number: int) -> None:
        if number in signals.STOPS:
            stops.append(number)

    loop.on_signal = stop
    signals.take_over()
    requests = None if control is None else Control(loop, control, stop)
    while not stops and not os.path.exists(path):  # any line, too, ends a turn
        loop.turn(time.monotonic() + _LOOK_SEC)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals.STOPS)
    loop.turn(time.monotonic())  # a signal that came just before
    if requests:
        requests.close()
    loop.close()
    if stops and os.path.exists(path):
        os.kill(os.getpid(), stops[0])  # the attempt takes it, and reports that it was stopped
        return None
    return 128 + stops[0] if stops else None
