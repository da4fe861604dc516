"""The end of a log: whether the work went on there, and its last lines. It is read only as far as needed."""

from __future__ import annotations

from bisect import bisect_right

from kedge.diagnose.log import lines, progress
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.light.functools import cached_property
from kedge.light.types import Container

MAX_LINES = 1500
LAST_LINES = 40
NEAR = 3  # lines
MAX_BLANK = 4 << 10  # bytes
MAX_CALM = 6  # lines of ordinary output that may follow the last words of a failed program


class LogEnd:
    """The last 1,500 lines of a log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        end = _end(log.text)
        self.last = log.line(end - 1) if end else None

    @cached_property
    def _lines(self) -> list[LogLine]:
        return [self.last, *self._log.before(self.last, MAX_LINES)][::-1] if self.last else []

    @cached_property
    def ranks(self) -> set[str]:
        """The ranks that wrote these lines, as far as they show it."""
        return {line.rank for line in self._lines if line.rank}

    @cached_property
    def _latest(self) -> list[LogLine]:
        return [self.last, *self._log.before(self.last, LAST_LINES)] if self.last else []

    def last_output_lines(self, most: int) -> list[LogLine]:
        """The last lines with output of the task itself, in the order of the log."""
        return [line for line in self._latest if line.body.strip() and not lines.of_runtime(line)][:most][::-1]

    @cached_property
    def _progress(self) -> dict[str, list[int]]:
        """The offsets of lines of progress, by rank; "" has those of all ranks."""
        found: dict[str, list[int]] = {"": []}
        for line in self._lines:
            if lines.progress(line):
                found[""].append(line.start)
                if line.rank:
                    found.setdefault(line.rank, []).append(line.start)
        return found

    @cached_property
    def success(self) -> int:
        """The offset of the line, among the last ones, that reports that the work is completed; -1 if there is none."""
        return next((line.start for line in self._latest if lines.success(line)), -1)

    @cached_property
    def happy_end(self) -> int:
        """The offset of the line, among the last ones, that reports that a program has finished or saved its results,
        if no error follows it; -1 if there is none."""
        for line in self._latest:
            if lines.finished(line) or lines.saved(line):
                return line.start
            if lines.last_words(line):
                return -1
        return -1

    @cached_property
    def ends_saved(self) -> bool:
        """Whether one of the very last lines reports that something was saved."""
        return any(lines.saved(line) for line in self._latest[: NEAR + 1])

    def near(self, end: int) -> bool:
        """Whether a text that ends at `end` is among the last lines, with no progress or successful end after it."""
        after = [line for line in self._latest if line.start > end]
        return len(after) <= NEAR and not any(self._good(line) for line in after)

    def error_before(self, line: LogLine) -> bool:
        """Whether one of the few lines before reads like the last words of a program, not of its launcher."""
        before = self._log.before(line, NEAR + MAX_CALM)
        return any(lines.last_words(one) and not lines.epilogue(one) for one in before)

    def unanswered(self, harmless: Container[int]) -> LogLine | None:
        """The last line that reads like an error, if the work neither went on nor ended successfully after it."""
        calm = 0
        for line in self._latest:
            if lines.last_words(line) and line.start not in harmless:
                return line
            if self._good(line):
                return None
            calm += not lines.epilogue(line) and not lines.error(line)
            if calm > MAX_CALM:
                return None
        return None

    @staticmethod
    def _good(line: LogLine) -> bool:
        return lines.progress(line) or lines.success(line) or lines.wraps_up(line) or lines.finished(line)

    def ordinary(self, start: int, end: int) -> bool:
        """Whether there is ordinary output between two places."""
        between = (line for line in self._lines if start < line.start < end)
        return any(not lines.epilogue(line) and not lines.error(line) for line in between)

    def continues(self, line: LogLine, end: int) -> bool:
        """Whether the progress of the rank that wrote `line` continues after `end` from where it was before; buffered
        output that arrives late starts again from lower numbers. Progress bars do not count, because a thread may draw
        them while its program is ending."""
        starts = self._progress.get(line.rank, [])
        count = bisect_right(starts, end)
        if not 0 < count < len(starts):
            return False
        before, after = (progress.reached(self._log.line(starts[at]).body) for at in (count - 1, count))
        return "bar" not in after and any(number >= before[kind] for kind, number in after.items() if kind in before)

    def progress(self, line: LogLine, start: int, end: int | None = None) -> int:
        """The number of lines of progress between two places, from the rank that wrote `line`."""
        starts = self._progress.get(line.rank, [])
        last = len(starts) if end is None else bisect_right(starts, end)
        return max(0, last - bisect_right(starts, start))


def _end(text: bytes) -> int:
    """The length of a text without blanks at the end. Its last bytes are copied, seldom all."""
    kept = text[-MAX_BLANK:].rstrip()
    return max(0, len(text) - MAX_BLANK) + len(kept) if kept else len(text.rstrip())
