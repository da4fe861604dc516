"""Finding the lines that match rules: one pass of an RE2 set over the log, then only the patterns that can match.

The set finds which beginnings of literals occur in a chunk of 1 MiB; the literals that begin so are searched in its
pieces of 64 KiB, and their patterns are tried on the lines that contain them. The number of lines tried is limited,
starting at the end of the log, so that a log full of near misses costs little.
"""

from __future__ import annotations

from kedge.diagnose import characters
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.rules import expression
from kedge.diagnose.rules.literal_search import LiteralSearch
from kedge.diagnose.rules.ruleset import LinePattern, Literal, RuleSet
from kedge.light.types import Any, Iterator, NamedTuple, Sequence

PIECE = 64 << 10
OVERLAP = 256
CHUNK = 16  # pieces
TRIES = 20_000  # lines times literals, in total
TRIES_EACH = 250  # for one literal
TRIES_PIECE = 24  # for one literal in one piece
MANY = 8  # lines: a pattern is first tried on as many at once
NEAREST = 2 * CHUNK  # pieces at the end that are searched first, then as many at the beginning

Span = tuple[int, int]  # where a piece starts and ends in the text


class Hit(NamedTuple):
    """A rule (its index) that matched a line; `values` are the numbers that its pattern captured."""

    rule: int
    line: LogLine
    values: dict[str, float]


def scan(log: Log, rules: RuleSet) -> list[Hit]:
    """All hits in the order of the log."""
    tries = _Tries(log, rules)
    for pieces in _chunks(list(_pieces(log.text))):
        start, end = min(pieces)[0], max(pieces)[1]
        literals = [one for one in rules.literals(log.text[start:end]) if tries.left(one)]
        search = LiteralSearch([(one.text, one.any_case) for one in literals])
        for piece in pieces if literals else ():
            tries.on(piece, literals, search)
        if not tries.total:
            break
    return [tries.hits[key] for key in sorted(tries.hits)]


class _Tries:
    """Tries patterns on lines: the hits so far, by line and rule, and how many more lines may be tried."""

    def __init__(self, log: Log, rules: RuleSet) -> None:
        self.hits: dict[tuple[int, int], Hit] = {}
        self.total = TRIES
        self._each: dict[tuple[int, int, int], int] = {}
        self._log, self._rules = log, rules

    def left(self, literal: Literal) -> int:
        """The number of lines on which this literal may still be tried."""
        return min(self._each.get(literal.place, TRIES_EACH), self.total)

    def on(self, piece: Span, literals: Sequence[Literal], search: LiteralSearch) -> None:
        """Try the literals that occur in a piece."""
        text = self._log.text[slice(*piece)]
        found = [literals[number] for number in search.occurring(text)]
        lower = text.lower() if any(one.any_case for one in found) else b""
        for one in found:
            limit = min(self.left(one), TRIES_PIECE)
            lines = _lines(self._log, one.text, lower if one.any_case else text, piece[0], limit)
            self._each[one.place] = self._each.get(one.place, TRIES_EACH) - len(lines)
            self.total -= len(lines)
            joined = _joined(lines) if len(lines) >= MANY else None
            for rule, number in one.users if lines else ():
                pattern = self._rules.pattern(rule, number)
                numbers = range(len(lines)) if joined is None else sorted(pattern.possible(joined))
                self._try(rule, pattern, [lines[number] for number in numbers])

    def _try(self, rule: int, pattern: LinePattern, lines: list[LogLine]) -> None:
        for line in lines:
            values = match(pattern.compiled, pattern.when, line.body)
            if values is not None:
                self.hits.setdefault((line.start, rule), Hit(rule, line, values))


def _joined(lines: list[LogLine]) -> bytes:
    return characters.valid(b"\n".join(line.body for line in lines))


def _pieces(text: bytes) -> Iterator[Span]:
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + PIECE) + 1
        if not end:
            end = start + PIECE
        yield start, min(len(text), end + (0 if text[end - 1 : end] == b"\n" else OVERLAP))
        start = end


def _chunks(pieces: list[Span]) -> Iterator[list[Span]]:
    """The pieces in the order in which they are searched, as lists of adjoining ones."""
    last, rest = pieces[-NEAREST:][::-1], pieces[:-NEAREST]
    for part in (last, rest[:NEAREST], rest[NEAREST:][::-1]):
        yield from (part[at : at + CHUNK] for at in range(0, len(part), CHUNK))


def _lines(log: Log, literal: bytes, piece: bytes, shift: int, limit: int) -> list[LogLine]:
    """The lines of a piece (which starts at `shift`) that contain a literal: at most `limit`, the last ones first."""
    lines: list[LogLine] = []
    end = len(piece)
    while len(lines) < limit and (found := piece.rfind(literal, 0, end)) >= 0:
        line = log.line(found + shift)
        lines.append(line)
        end = max(0, min(found, line.start - shift))
    return lines


def match(pattern: Any, when: Sequence[Any], body: bytes) -> dict[str, float] | None:
    """The numbers that a pattern captures from a line. None if the pattern or a condition does not match."""
    found = pattern.search(characters.valid(body))
    if not found:
        return None
    groups = {name.decode(): text.decode() for name, text in found.groupdict().items() if text is not None}
    quantities = {name: expression.quantity(text) for name, text in groups.items()}
    values = {name: value for name, value in quantities.items() if value is not None}
    return values if all(expression.holds(condition, values) for condition in when) else None
