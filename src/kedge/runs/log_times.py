"""Reads the index of times beside a log file (docs/runtime.md). Tasks can write to it: whatever it holds, a reader
needs little time and memory, and gets times that do not decrease."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

_RECORD = struct.Struct("<QQ")
_BLOCK = 1 << 12  # bytes: a multiple of a record
_LATEST = 253_402_214_400 * 10**9  # nanoseconds since 1970: the last day that Python's calendar has
_MOST_WRONG = 1000  # records, after which the rest of an index is ignored


class TimeMark(NamedTuple):
    """The bytes of the log file from `offset` on were read at `time`, in nanoseconds since 1970."""

    offset: int
    time: int


_END = TimeMark(1 << 64, 1 << 64)


class TimesReader:
    """Reads the index with the descriptor `fd`, which it closes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at = 0  # bytes of the index that were read
        self._waiting: list[tuple[int, int]] = []  # offsets and times, the last first
        self._offset, self._time = -1, 0  # of the last record that was returned
        self._wrong = 0

    def close(self) -> None:
        os.close(self._fd)

    def before(self, end: int) -> Iterator[tuple[int, int]]:
        """The next records about bytes before the offset `end`: offset and time, as in a TimeMark."""
        while self._waiting or self._read():
            offset, time = self._waiting[-1]
            if offset >= end:
                return
            self._waiting.pop()
            if offset <= self._offset or time > _LATEST:
                self._wrong += 1
                continue
            self._offset = offset
            self._time = max(self._time, time)
            yield offset, self._time

    def skip_to(self, offset: int) -> None:
        """Begin with the record that holds for the byte at `offset`."""
        self._at = max(0, bisect_right(self, offset, key=lambda mark: mark.offset) - 1) * _RECORD.size

    def first(self) -> TimeMark | None:
        """The first record."""
        return self[0] if len(self) else None

    def since(self, time: int) -> int | None:
        """The offset of the first byte that was read at `time` or later. None if there is none."""
        index = bisect_left(self, time, key=lambda mark: mark.time)
        return self[index].offset if index < len(self) else None

    def __len__(self) -> int:
        return os.fstat(self._fd).st_size // _RECORD.size

    def __getitem__(self, index: int) -> TimeMark:
        if index >= len(self):
            raise IndexError(index)
        data = os.pread(self._fd, _RECORD.size, index * _RECORD.size)
        return TimeMark(*_RECORD.unpack(data)) if len(data) == _RECORD.size else _END

    def _read(self) -> bool:
        if self._wrong > _MOST_WRONG:
            return False
        data = os.pread(self._fd, _BLOCK, self._at)
        whole = len(data) // _RECORD.size * _RECORD.size
        self._at += whole
        self._waiting = list(_RECORD.iter_unpack(data[:whole]))[::-1]
        return bool(whole)
