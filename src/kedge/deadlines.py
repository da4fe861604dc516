"""A limit of time for a call that has none of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises; TimeoutError if it takes longer than `seconds`.

    `ask` runs in a thread. One that is given up ends by itself, at the latest with the process."""
    answers: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answer = ask()
        except Exception as error:  # raised below
            failed = error
            answers.put(lambda: _raise(failed))
        else:
            answers.put(lambda: answer)

    threading.Thread(target=work, daemon=True).start()
    try:
        return answers.get(timeout=seconds)()
    except queue.Empty:
        raise TimeoutError(f"no whole answer within {seconds:g} s") from None


def _raise(error: Exception) -> T:  # type: ignore[type-var]
    raise error
