"""The lines of one piece of a log that contain certain literals."""

from __future__ import annotations

from kedge.diagnose.log.log_text import LONGEST, Log, LogLine
from kedge.diagnose.rules.literal_search import SHORT, LiteralSearch, Span
from kedge.light.types import Sequence

# Searching a piece for one literal takes as long as asking the set which literals are in so many lines. Fewer literals
# than FEWEST are not worth counting the lines.
LINES_PER_LITERAL = 32
FEWEST = 8


class LiteralLines:
    """Finds the lines of a piece that contain the literals `found` (numbers in `search`), at most `limit` for each,
    the last ones first. Very long lines may be cut, see Log.line."""

    def __init__(self, log: Log, piece: Span, search: LiteralSearch, found: Sequence[int], limit: int) -> None:
        self._log, self._piece, self._search, self._limit = log, piece, search, limit
        self._lower: bytes | None = None
        self._text = log.text[slice(*piece)] if found else b""
        self._known = self._line_by_line(found) if self._is_crowded(len(found)) else None

    def of(self, number: int, limit: int) -> list[LogLine]:
        """The lines that contain a literal, at most `limit`."""
        if self._known is None:
            return self._searched(number, min(limit, self._limit))
        return self._known[number][:limit]

    def _is_crowded(self, literals: int) -> bool:
        """Whether there are so many literals that all lines are searched at once. They must be whole and not long."""
        if literals < FEWEST or len(self._text) <= SHORT:
            return False
        start, end = self._piece
        text = self._log.text
        whole = text[start - 1 : start] in (b"", b"\n") and (end == len(text) or text[end - 1 : end] == b"\n")
        return whole and self._text.count(b"\n") < LINES_PER_LITERAL * literals

    def _line_by_line(self, found: Sequence[int]) -> dict[int, list[LogLine]] | None:
        """The lines of all literals, from a pass over the lines. None if some are very long."""
        lines = self._text.split(b"\n")
        if max(map(len, lines)) >= LONGEST:
            return None
        known: dict[int, list[LogLine]] = {number: [] for number in found}
        wanted = set(found)
        start = self._piece[1] + 1
        for text, numbers in self._search.in_lines(lines[::-1]):
            start -= len(text) + 1
            if not (here := wanted.intersection(numbers)):
                continue
            line = self._log.line(start)
            for number in here:
                known[number].append(line)
                if len(known[number]) == self._limit:
                    wanted.discard(number)
            if not wanted:
                break
        return known

    def _searched(self, number: int, limit: int) -> list[LogLine]:
        """The lines of one literal, from a search for it."""
        literal, any_case = self._search.literals[number]
        text = self._text
        if any_case:
            text = self._lower = self._lower or text.lower()
        lines: list[LogLine] = []
        shift, end = self._piece[0], len(text)
        for first, last in self._windows(number, len(literal)):
            while len(lines) < limit and (found := text.rfind(literal, first, min(last, end))) >= 0:
                line = self._log.line(found + shift)
                lines.append(line)
                end = max(0, min(found, line.start - shift))
        return lines

    def _windows(self, number: int, length: int) -> list[Span]:
        """Parts of the text, the last one first, in which a literal starts: for a rare one, small ones that RE2 found,
        because its search forward is ten times as fast as the one backward."""
        places = self._search.places(number, self._text, self._limit)
        if places is None:
            return [(0, len(self._text))]
        return [(place, place + 2 * length - 1) for place in reversed(places)]
