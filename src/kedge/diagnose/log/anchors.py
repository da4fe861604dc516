"""What is searched for where a log is too long to be looked at line by line, and how much around it is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

# One by one: each costs half a second a GiB, and a regular expression for all of them more than all.
ANCHORS = (b"(most recent call last)", b"Error: ", b"FATAL")
BEFORE, AFTER = 2 << 10, 16 << 10  # bytes around a place
_FIRST, _LAST = 4, 12


class FirstAndLast(Generic[T]):
    """The first few and the last few of all that is added, in that order."""

    def __init__(self) -> None:
        self._first: list[T] = []
        self._last: deque[T] = deque(maxlen=_LAST)

    def add(self, item: T) -> None:
        (self._first if len(self._first) < _FIRST else self._last).append(item)

    def __iter__(self) -> Iterator[T]:
        yield from self._first
        yield from self._last
