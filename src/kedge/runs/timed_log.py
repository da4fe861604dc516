"""The lines of one stream of a task attempt, with the times at which they were printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kedge.runs.log_times import TimesReader
from kedge.runs.logs import LineCutter, StreamReader, open_index

BLOCK = 1 << 16


class LogSource(NamedTuple):
    """The task attempt that printed a line."""

    role: str
    task_index: int
    attempt: int  # of the job, from 0
    task_attempt: int = 0

    @property
    def task(self) -> str:
        """`worker:3`."""
        return f"{self.role}:{self.task_index}"

    @property
    def label(self) -> str:
        """`worker:3`, or `worker:3.1` for its first retry."""
        return self.task + (f".{self.task_attempt}" if self.task_attempt else "")


class TaskLines(NamedTuple):
    """Lines that a task printed at the same `time` (nanoseconds since 1970; None if it is unknown).

    `data` holds one or more whole lines; or a piece of a very long line, without a newline; or the `last` line, which
    is unfinished.
    """

    source: LogSource
    data: bytes
    time: int | None = None
    last: bool = False


class TimedLog:
    """Reads a stream in pieces of at most `block` bytes. `left` is how many bytes are still read, None for all. Without
    `timed` no line has a time, and lines need not be told apart, which is faster.

    Call `close` at the end. OSError if there are too few descriptors.
    """

    def __init__(self, source: LogSource, folder: Path, stream: str, block: int = BLOCK) -> None:
        self.source, self.folder, self.stream = source, folder, stream
        self.left: int | None = None
        self.timed = True
        self.key = 0  # a lower bound for the time of what `next` returned last; never decreases
        self.newest = 0  # the latest time of what was read
        self._block = block
        self._reader = StreamReader(folder, stream)
        self._cutter = LineCutter()
        self._times: TimesReader | None = None
        self._inode = 0  # of the file that has these times
        self._time: int | None = None
        self._lines: Iterator[TaskLines] = iter(())

    def close(self) -> None:
        self._reader.close()
        self._forget_times()

    def begin_at(self, inode: int, offset: int) -> None:
        """Read from this byte of this file of the stream on."""
        self._reader.seek(inode, offset)

    def next(self) -> TaskLines | None:
        """The next lines; None if there are no more at the moment."""
        while True:
            if lines := next(self._lines, None):
                return lines
            if self.left == 0:
                return self.rest()
            data = self._reader.read(self._block if self.left is None else min(self._block, self.left))
            if not data:
                return None
            if self.left is not None:
                self.left -= len(data)
            self._lines = self._cut(data)

    def at_end_of(self, time: int) -> None:
        """All that was printed until `time` has been read: what follows was printed later."""
        self.key = max(self.key, time)

    def rest(self) -> TaskLines | None:
        """The unfinished line at the end."""
        data = self._cutter.rest()
        return TaskLines(self.source, data, self._time, last=True) if data else None

    def _cut(self, data: bytes) -> Iterator[TaskLines]:
        start, done = self._reader.offset, 0
        times = self._times_at(start) if self.timed else None
        for offset, time in times.before(start + len(data)) if times else ():
            self.newest = max(self.newest, time)
            if offset > start + done:
                for piece in self._cutter.feed(data[done : offset - start]):
                    yield self._printed(piece)
                done = offset - start
            self._time = time
        for piece in self._cutter.feed(data[done:]):
            yield self._printed(piece)

    def _printed(self, data: bytes) -> TaskLines:
        if self._time is not None and self._time > self.key:
            self.key = self._time
        return TaskLines(self.source, data, self._time)

    def _times_at(self, offset: int) -> TimesReader | None:
        """The times of the file that is being read."""
        if self._inode != self._reader.inode:
            self._forget_times()
            self._time, self._inode = None, self._reader.inode
            fd = open_index(self.folder, self.stream, self._inode)
            if fd is not None:
                self._times = TimesReader(fd)
                self._times.skip_to(offset)
        return self._times

    def _forget_times(self) -> None:
        if self._times is not None:
            self._times.close()
            self._times = None
