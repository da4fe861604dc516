"""Merges the logs of many tasks by the times of their lines."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from kedge import open_files
from kedge.runs.timed_log import TaskLines, TimedLog

_MANY = 100  # logs
_ANY = 1 << 64  # later than every time, more than all bytes


def allow(logs: int) -> None:
    """Allow this process to read so many logs at once: each takes two descriptors, and often no more than 1024 are
    allowed at first."""
    if logs >= _MANY:
        open_files.raise_limit()


class LogMerger:
    """Yields the lines of logs in the order of their times; those of one log stay in their order. Lines with an unknown
    time come first, or right after the line before them.

    A log is closed by `finish`, or by `close`. Memory: a block for each log.
    """

    def __init__(self, logs: Iterable[TimedLog] = ()) -> None:
        self._heap: list[tuple[int, int, TimedLog, TaskLines]] = []  # time, number of the log, log, its next lines
        self._idle: dict[TimedLog, int] = {}  # logs that had no more lines, with their numbers
        self._added = 0
        self._now = 0  # the latest time of a refresh
        for log in logs:
            self.add(log)

    def __enter__(self) -> LogMerger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for log in (*self._idle, *(log for _, _, log, _ in self._heap)):
            log.close()
        self._heap, self._idle = [], {}

    def add(self, log: TimedLog) -> None:
        """Merge one more log."""
        self._added += 1
        allow(self._added)
        self._push(log, self._added)

    def refresh(self, now: int) -> int:
        """Look for new lines in the logs that had no more. `now` is a time before this call. Returns the time until
        which no line is missing: a line that was printed later may follow another one that is not seen yet.

        It is not before the times of lines that an earlier call saw: a clock that is ahead, or was set back, delays
        lines until the next call and no longer."""
        seen = max((log.newest for _, _, log, _ in self._heap), default=0)
        self._now = max(self._now, now)
        idle, self._idle = self._idle, {}
        for log, number in idle.items():
            if not self._push(log, number):
                log.at_end_of(self._now)
        return max(self._now, seen)

    def until(self, time: int = _ANY, most: int = _ANY) -> Iterator[TaskLines]:
        """Lines that were printed until `time`, but not much more than `most` bytes of them: a log that grows quickly
        may never end."""
        while self._heap and self._heap[0][0] <= time and most > 0:
            _, number, log, lines = self._heap[0]
            yield lines
            most -= len(lines.data)
            if following := log.next():
                heapq.heapreplace(self._heap, (log.key, number, log, following))
            else:
                heapq.heappop(self._heap)
                self._idle[log] = number

    def finish(self, log: TimedLog) -> Iterator[TaskLines]:
        """All further lines of one log, which gets no more."""
        for entry in self._heap:
            if entry[2] is log:
                yield entry[3]
                self._heap.remove(entry)
                heapq.heapify(self._heap)
                break
        self._idle.pop(log, None)
        while lines := log.next():
            yield lines
        if unfinished := log.rest():
            yield unfinished
        log.close()

    def finish_all(self) -> Iterator[TaskLines]:
        """All further lines of all logs; none of them gets more."""
        yield from self.until()
        for log in list(self._idle):
            yield from self.finish(log)

    def _push(self, log: TimedLog, number: int) -> bool:
        if lines := log.next():
            heapq.heappush(self._heap, (log.key, number, log, lines))
        else:
            self._idle[log] = number
        return lines is not None
