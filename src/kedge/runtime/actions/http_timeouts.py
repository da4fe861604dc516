"""How long to wait for a server: for the beginning of its answer, however many hosts and redirects are on the way, and
for each piece that follows."""

from __future__ import annotations

import time

_SLOWEST = 1000  # bytes a second; what sends less has hung, as git's http.lowSpeedLimit has it


class TooSlow(TimeoutError):
    """The answer comes, but it would never end."""


class Pace:
    """One try. `silence_sec` is the limit for all that is before the body, and then for each silence."""

    def __init__(self, silence_sec: float) -> None:
        self._limit = silence_sec
        self._end = time.monotonic() + silence_sec
        self._body = False
        self._received = 0

    def left_sec(self) -> float:
        """How long the next operation may take. TimeoutError if there is nothing left."""
        if self._body:
            return self._limit
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no whole answer within {self._limit:g} seconds")
        return left

    def body(self) -> None:
        """The beginning is there: from now on it is the silences that count."""
        self._body = True
        self._end = time.monotonic() + self._limit

    def received(self, size: int) -> None:
        """So many bytes of the body came. TooSlow if there were too few of them for long."""
        self._received += size
        if (now := time.monotonic()) < self._end:
            return
        if self._received < _SLOWEST * self._limit:
            raise TooSlow(f"less than {_SLOWEST} bytes a second for {self._limit:g} seconds")
        self._received, self._end = 0, now + self._limit
