"""Callbacks from other threads, run by the one thread that decides."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class CallbackQueue:
    """A queue of functions: any thread adds them, one thread calls them. Its descriptor is readable when there are
    any."""

    def __init__(self) -> None:
        self._callbacks: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._wake

    def post(self, callback: Callable[[], Any]) -> None:
        """Add a function to be called; from any thread."""
        self._callbacks.put(callback)
        with suppress(BlockingIOError, OSError):  # a full pipe is readable already; a closed one is not needed
            os.write(self._waker, b"\0")

    def call_all(self) -> None:
        """Call all functions of the queue, in order."""
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        with suppress(queue.Empty):
            while True:
                self._callbacks.get_nowait()()

    def close(self) -> None:
        """Call the remaining functions and close the descriptor."""
        self.call_all()
        os.close(self._wake)
        os.close(self._waker)
