"""The times of a log's lines, in an index beside the log: the log itself holds nothing but what was printed.

The index of `user-all/current` is `log-times/user-all/current`, and so for every other log file: it is renamed and
deleted with it. It consists of records of 16 bytes, two little-endian numbers of 64 bits: an offset in the log file,
and when the bytes from there on were read, in nanoseconds since 1970. In one file neither number decreases, even if
the clock is set back.
"""

from __future__ import annotations

import os
import time

from kedge import contract
from kedge.light import contextlib
from kedge.light.types import Callable
from kedge.own_files import clear, open_own

_RECORD = 16  # bytes
_PACE_NS = 1_000_000  # between two records of a log, on average
_AHEAD_NS = 1_000 * _PACE_NS  # so that a thousand records may follow each other at once
# The largest size of an index: these bytes, an eighth of the log, and a record for each second since it was begun.
_FREE_BYTES = 1 << 20
_SHARE_OF_LOG = 8
_SECOND_NS = 1_000_000_000


class TimeIndex:
    """The index of one log, `path` in the task's `folder`: of the file that is being written now, and of those that
    have been rotated. `clock` returns nanoseconds since 1970.

    An index that cannot be written, on a full disk for example, harms nothing: the rest of its file has no times.
    """

    def __init__(self, folder: str, path: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._path = f"{folder}/{contract.LOG_TIMES}/{path}"
        self._clock = clock
        self._fd: int | None = None
        self._broken = False
        self._size = 0
        self._begun = 0
        self._last = 0
        self._due = 0  # the time of the next record if all had kept the pace

    def mark(self, offset: int) -> None:
        """The bytes of the log file from `offset` on arrive now. Call this before they are written, so that a reader
        who sees them also finds their time. Each record is written at once: after a crash, the last ones matter."""
        now = self._clock()
        if self._fd is None:
            self._begin(offset, now)
        elif now > self._last and self._has_room(offset, now):
            self._write(offset, now)

    def rename(self, name: str) -> None:
        """The log file gets this name. Call this before that happens: a reader who finds the log file under a name then
        never finds the index of another one under it."""
        with contextlib.suppress(OSError):
            os.rename(self._path, f"{os.path.dirname(self._path)}/{name}")
        self.close()

    def remove(self, name: str) -> None:
        """The rotated log file with this name is about to be deleted."""
        with contextlib.suppress(OSError):
            clear(f"{os.path.dirname(self._path)}/{name}")

    def close(self) -> None:
        """The log file gets no more data."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._broken, self._size = None, False, 0

    def _begin(self, offset: int, now: int) -> None:
        if self._broken:
            return
        self._begun = now
        try:
            os.makedirs(os.path.dirname(self._path), 0o755, exist_ok=True)
            self._fd = open_own(self._path, os.O_WRONLY | os.O_APPEND | (0 if offset else os.O_TRUNC), 0o644)
            os.fchmod(self._fd, 0o644)
            self._size = os.fstat(self._fd).st_size // _RECORD * _RECORD
            os.ftruncate(self._fd, self._size)  # a crash may have left a part of a record
        except OSError:
            self._broken = True
        self._write(offset, max(now, self._last))

    def _has_room(self, offset: int, now: int) -> bool:
        if self._due - now > _AHEAD_NS:
            return False
        seconds = (now - self._begun) // _SECOND_NS
        return self._size < _FREE_BYTES + offset // _SHARE_OF_LOG + seconds * _RECORD

    def _write(self, offset: int, now: int) -> None:
        if self._broken or self._fd is None:
            return
        self._last, self._due = now, max(self._due, now) + _PACE_NS
        self._size += _RECORD
        try:
            record = offset.to_bytes(8, "little") + now.to_bytes(8, "little")
            self._broken = os.write(self._fd, record) < _RECORD  # a torn record: what follows could not be read
        except OSError:
            self._broken = True
