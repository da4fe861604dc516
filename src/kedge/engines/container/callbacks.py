"""What threads have found out, for the one thread that decides what follows from it."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class CallbackQueue:
    """Functions that any thread puts in and one thread calls; its descriptor can be read when there are any."""

    def __init__(self) -> None:
        self._found: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._wake

    def post(self, found: Callable[[], Any]) -> None:
        """Put in what is to be called, from any thread."""
        self._found.put(found)
        with suppress(BlockingIOError, OSError):  # full is awake enough; closed is over
            os.write(self._waker, b"\0")

    def call_all(self) -> None:
        """Call, in their order, all that were put in."""
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        with suppress(queue.Empty):
            while True:
                self._found.get_nowait()()

    def close(self) -> None:
        """What is still in it is called."""
        self.call_all()
        os.close(self._wake)
        os.close(self._waker)
