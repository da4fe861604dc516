"""A time limit for a call that has none of its own."""

from __future__ import annotations

import _thread

from kedge.light.types import Callable, TypeVar

T = TypeVar("T")


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises; TimeoutError if it takes longer than `seconds`.

    `ask` runs in a thread. One that is given up ends by itself, at the latest with the process."""
    ended = _thread.allocate_lock()  # as `threading` uses it, which takes as long to load as Python takes to start
    ended.acquire()
    answers: list[T] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # raised below
            errors.append(error)
        finally:
            ended.release()

    _thread.start_new_thread(work, ())
    if not ended.acquire(timeout=max(0.0, seconds)):
        raise TimeoutError(f"no whole answer within {seconds:g} s")
    if errors:
        raise errors[0]
    return answers[0]
