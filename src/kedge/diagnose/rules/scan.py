"""Finding the lines that match rules: one pass of an RE2 set over the log, then only the patterns that can match.

The set finds which beginnings of literals occur in a chunk of 1 MiB; the literals that begin so are searched in its
pieces of 64 KiB, and their patterns are tried on the lines that contain them. The number of lines tried is limited,
starting at the end of the log, so that a log full of near misses costs little.
"""

from __future__ import annotations

from kedge.diagnose import characters
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.rules import expression
from kedge.diagnose.rules.literal_lines import LiteralLines
from kedge.diagnose.rules.literal_search import LiteralSearch, Span
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


class Hit(NamedTuple):
    """A rule (its index) that matched a line; `values` are the numbers that its pattern captured."""

    rule: int
    line: LogLine
    values: dict[str, float]


def scan(log: Log, rules: RuleSet) -> list[Hit]:
    """All hits in the order of the log."""
    tries = _Tries(log, rules)
    for pieces in _chunks(list(_pieces(log.text))):
        chunk = min(pieces)[0], max(pieces)[1]
        literals = [one for one in rules.literals(log.text, *chunk) if tries.left(one)]
        search = LiteralSearch([(one.text, one.any_case) for one in literals])
        for piece, found in search.in_pieces(log.text, pieces) if literals else ():
            tries.on(piece, literals, search, found)
            if not tries.total:
                return tries.in_order()
    return tries.in_order()


class _Tries:
    """Tries patterns on lines: the hits so far, by line and rule, and how many more lines may be tried."""

    def __init__(self, log: Log, rules: RuleSet) -> None:
        self.hits: dict[tuple[int, int], Hit] = {}
        self.total = TRIES
        self._each: dict[tuple[int, int, int], int] = {}
        self._log, self._rules = log, rules

    def in_order(self) -> list[Hit]:
        """The hits in the order of the log."""
        return [self.hits[key] for key in sorted(self.hits)]

    def left(self, literal: Literal) -> int:
        """The number of lines on which this literal may still be tried."""
        return min(self._each.get(literal.place, TRIES_EACH), self.total)

    def on(self, piece: Span, literals: Sequence[Literal], search: LiteralSearch, occurring: Sequence[int]) -> None:
        """Try the literals that occur in a piece."""
        found = [number for number in occurring if self.left(literals[number])]
        lines = LiteralLines(self._log, piece, search, found, TRIES_PIECE)
        for number in found:
            one = literals[number]
            tried = lines.of(number, self.left(one))
            self._each[one.place] = self._each.get(one.place, TRIES_EACH) - len(tried)
            self.total -= len(tried)
            self._try_all(one, tried)

    def _try_all(self, literal: Literal, lines: list[LogLine]) -> None:
        """Try the patterns that need a literal on lines that contain it."""
        joined = characters.valid(b"\n".join([line.body for line in lines]))
        for rule, number in literal.users if lines else ():
            pattern = self._rules.pattern(rule, number)
            if pattern.excluded(joined):
                continue
            numbers = range(len(lines)) if len(lines) < MANY else sorted(pattern.possible(joined))
            self._try(rule, pattern, [lines[number] for number in numbers])

    def _try(self, rule: int, pattern: LinePattern, lines: list[LogLine]) -> None:
        for line in lines:
            values = match(pattern.compiled, pattern.when, line.body)
            if values is not None:
                self.hits.setdefault((line.start, rule), Hit(rule, line, values))


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


def match(pattern: Any, when: Sequence[Any], body: bytes) -> dict[str, float] | None:
    """The numbers that a pattern captures from a line. None if the pattern or a condition does not match."""
    found = pattern.search(characters.valid(body))
    if not found:
        return None
    groups = {name.decode(): text.decode() for name, text in found.groupdict().items() if text is not None}
    quantities = {name: expression.quantity(text) for name, text in groups.items()}
    values = {name: value for name, value in quantities.items() if value is not None}
    return values if all(expression.holds(condition, values) for condition in when) else None
