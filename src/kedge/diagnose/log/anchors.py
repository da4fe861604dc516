"""The texts to search for in logs that are too long to be read line by line, and how much around them is kept."""

from __future__ import annotations

from kedge.light.types import Generic, Iterator, TypeVar

T = TypeVar("T")

# Searched one by one by regex.find: a GiB takes 0.1 s, and 7 s with one regular expression for all of them.
ANCHORS = (b"(most recent call last)", b"Error: ", b"FATAL")
BEFORE, AFTER = 2 << 10, 16 << 10  # bytes around a place
_FIRST, _LAST = 4, 12


class FirstAndLast(Generic[T]):
    """Keeps the first few and the last few of the items added, in that order."""

    def __init__(self) -> None:
        self._first: list[T] = []
        self._last: list[T] = []

    def add(self, item: T) -> None:
        (self._first if len(self._first) < _FIRST else self._last).append(item)
        del self._last[:-_LAST]

    def __iter__(self) -> Iterator[T]:
        yield from self._first
        yield from self._last
