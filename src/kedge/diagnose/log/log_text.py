"""A log as the analysis reads it: the last 10 MiB, without colours and NULs, cut into lines on demand.

Overwritten progress (`\r`) counts as separate lines, but line numbers are those of the file.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kedge.diagnose.log import mpi_tags, prefix
from kedge.diagnose.model import LOG_TAIL
from kedge.light.types import Iterator, NamedTuple

LONGEST = 8 << 10  # bytes of a very long line that are used on each side of a hit
_CSI = b"0123456789;:?<=>! "


class LogLine(NamedTuple):
    """One line: where it starts and ends in the text, its rank and time as written, and the rest of it."""

    start: int
    end: int
    rank: str
    time: str
    body: bytes


class Log:
    """The text of one log and its lines. `name` is shown in evidence."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self._skipped = content[:-LOG_TAIL].count(b"\n") if len(content) > LOG_TAIL else 0
        self._returns = content[-LOG_TAIL:].replace(b"\r\n", b"\n") if b"\r" in content else None
        tail = content[-LOG_TAIL:] if self._returns is None else self._returns
        self.text = mpi_tags.joined(_without_escapes(tail.replace(b"\0", b"")).replace(b"\r", b"\n"))
        self._cache: dict[int, LogLine] = {}
        self._numbers: list[int] | None = None
        self._counted = 0, 0

    def line(self, offset: int) -> LogLine:
        """The line that contains an offset; of a very long line, the part around it."""
        first = offset - LONGEST if offset > LONGEST else 0
        start = self.text.rfind(b"\n", first, offset) + 1 or first
        line = self._cache.get(start)
        while line and line.end < offset:  # a very long line is read as several
            start = line.end
            line = self._cache.get(start)
        return line or self._read(start, offset)

    def _read(self, start: int, offset: int) -> LogLine:
        end = self.text.find(b"\n", offset, offset + LONGEST)
        if end < 0:
            end = min(len(self.text), offset + LONGEST)
        rank, time, body = prefix.split(self.text[start:end])
        line = self._cache[start] = LogLine(start, end, rank, time, body)
        return line

    def after(self, line: LogLine, limit: int) -> Iterator[LogLine]:
        """At most `limit` lines that follow."""
        for _ in range(limit):
            if line.end + 1 >= len(self.text):
                return
            line = self.line(line.end + 1)
            yield line

    def before(self, line: LogLine, limit: int) -> Iterator[LogLine]:
        """At most `limit` lines that precede, the nearest first."""
        for _ in range(limit):
            if line.start == 0:
                return
            line = self.line(line.start - 1)
            yield line

    def number(self, offset: int) -> int:
        """The number of a line in its file, counted from 1."""
        count = self._newlines(offset)
        if self._returns is None:
            return self._skipped + count + 1
        if self._numbers is None:
            parts = [piece.count(b"\r") + 1 for piece in self._returns.split(b"\n")]
            self._numbers = list(accumulate(parts))
        return self._skipped + bisect_right(self._numbers, count) + 1

    def _newlines(self, offset: int) -> int:
        """The number of newlines before an offset, counted from the previous offset: quotes are close together."""
        place, count = self._counted
        between = self.text.count(b"\n", *sorted((place, offset)))
        count += between if offset >= place else -between
        self._counted = offset, count
        return count

    def show(self, line: LogLine) -> str:
        """The text of a line for the user, at most 1,000 characters."""
        return self.text[line.start : line.end].decode("utf-8", "replace").strip()[:1000]


def _without_escapes(text: bytes) -> bytes:
    """Remove ANSI control sequences (ECMA-48: CSI … final byte; OSC … BEL or ESC \\)."""
    if b"\x1b" not in text:
        return text
    first, *pieces = text.split(b"\x1b")
    return first + b"".join(map(_after_escape, pieces))


def _after_escape(piece: bytes) -> bytes:
    kind = piece[:1]
    if kind == b"[":
        rest = piece[1:].lstrip(_CSI)
        return rest[1:] if rest[:1] not in (b"\n", b"\r") else rest
    if kind == b"]":
        payload, bell, rest = piece.partition(b"\x07")
        return rest if bell and b"\n" not in payload else piece
    return piece if kind in (b"\n", b"\r") else piece[1:]
