"""Finding the lines that match rules: one pass of an RE2 set over the log, then only the patterns that can match.

The set finds which literals occur in a piece of 64 KiB; their patterns are tried on the lines that contain them. The
number of lines tried is limited, starting at the end of the log, so that a log full of near misses costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kedge.diagnose import characters
from kedge.diagnose.log.log_text import Log, LogLine
from kedge.diagnose.rules import expression
from kedge.diagnose.rules.ruleset import RuleSet

PIECE = 64 << 10
OVERLAP = 256
TRIES = 20_000  # lines times literals, in total
TRIES_EACH = 250  # for one literal
TRIES_PIECE = 24  # for one literal in one piece
NEAREST = 32  # pieces at the end that are searched first, then as many at the beginning


class Hit(NamedTuple):
    """A rule (its index) that matched a line; `values` are the numbers that its pattern captured."""

    rule: int
    line: LogLine
    values: dict[str, float]


def scan(log: Log, rules: RuleSet) -> list[Hit]:
    """All hits in the order of the log."""
    left: dict[int, int] = {}
    total = TRIES
    tried: dict[tuple[int, tuple[int, int]], Hit | None] = {}
    for start, end in _in_order(list(_pieces(log.text))):
        piece = log.text[start:end]
        found = rules.hits(piece)
        lower = piece.lower() if any(rules.literals[index].any_case for index in found) else b""
        for index in found:
            literal = rules.literals[index]
            limit = min(left.setdefault(index, TRIES_EACH), TRIES_PIECE, total)
            for line in _lines(log, literal.text, lower if literal.any_case else piece, start, limit):
                left[index] -= 1
                total -= 1
                for user in literal.users:
                    if (line.start, user) not in tried:
                        tried[line.start, user] = _try(rules, user, line)
        if total <= 0:
            break
    distinct = {(hit.line.start, hit.rule): hit for hit in tried.values() if hit}
    return [distinct[key] for key in sorted(distinct)]


def _pieces(text: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + PIECE) + 1
        if not end:
            end = start + PIECE
        yield start, min(len(text), end + (0 if text[end - 1 : end] == b"\n" else OVERLAP))
        start = end


def _in_order(pieces: list[Any]) -> Iterator[Any]:
    yield from reversed(pieces[-NEAREST:])
    yield from pieces[:-NEAREST][:NEAREST]
    yield from reversed(pieces[:-NEAREST][NEAREST:])


def _lines(log: Log, literal: bytes, piece: bytes, shift: int, limit: int) -> Iterator[LogLine]:
    """The lines of a piece (which starts at `shift`) that contain a literal: at most `limit`, the last ones first."""
    end = len(piece)
    for _ in range(limit):
        found = piece.rfind(literal, 0, end)
        if found < 0:
            return
        line = log.line(found + shift)
        yield line
        end = max(0, min(found, line.start - shift))


def _try(rules: RuleSet, user: tuple[int, int], line: LogLine) -> Hit | None:
    values = match(rules.pattern(*user), rules.rule(user[0]).when, line.body)
    return None if values is None else Hit(user[0], line, values)


def match(pattern: Any, when: Sequence[Any], body: bytes) -> dict[str, float] | None:
    """The numbers that a pattern captures from a line. None if the pattern or a condition does not match."""
    found = pattern.search(characters.valid(body))
    if not found:
        return None
    groups = {name.decode(): text.decode() for name, text in found.groupdict().items() if text is not None}
    quantities = {name: expression.quantity(text) for name, text in groups.items()}
    values = {name: value for name, value in quantities.items() if value is not None}
    return values if all(expression.holds(condition, values) for condition in when) else None
