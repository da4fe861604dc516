"""How long to wait for a server: for the start of its response, including all addresses and redirects on the way, and
for each piece that follows."""

from __future__ import annotations

import time

_SLOWEST = 1000  # bytes a second; a server that sends less is considered hung, like git's http.lowSpeedLimit


class TooSlow(TimeoutError):
    """The response arrives too slowly to ever end."""


class Pace:
    """The time limits of one try. `silence_sec` limits everything before the body, and then each silence."""

    def __init__(self, silence_sec: float) -> None:
        self._limit = silence_sec
        self._end = time.monotonic() + silence_sec
        self._body = False
        self._received = 0

    def left_sec(self) -> float:
        """How long the next operation may take. TimeoutError if no time is left."""
        if self._body:
            return self._limit
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no complete response within {self._limit:g} seconds")
        return left

    def body(self) -> None:
        """The body begins: from now on each silence is limited."""
        self._body = True
        self._end = time.monotonic() + self._limit

    def received(self, size: int) -> None:
        """Count `size` bytes of the body. TooSlow if fewer than _SLOWEST a second have arrived for `silence_sec`."""
        self._received += size
        if (now := time.monotonic()) < self._end:
            return
        if self._received < _SLOWEST * self._limit:
            raise TooSlow(f"less than {_SLOWEST} bytes a second for {self._limit:g} seconds")
        self._received, self._end = 0, now + self._limit
