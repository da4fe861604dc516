"""Waiting for a condition in tests, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], deadline: float = 600.0, what: str = "") -> T:
    """Call `condition` until it returns a true value, and return that value.

    `deadline` is in seconds from now. AssertionError names `what` was waited for when the deadline passes.
    """
    end = time.monotonic() + deadline
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not true within {deadline} s: {what or condition}")
        time.sleep(0.01)
    return result
