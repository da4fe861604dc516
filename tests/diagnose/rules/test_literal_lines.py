"""The lines that contain literals, however many literals there are."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest

from kedge.diagnose.log.log_text import LONGEST, Log, LogLine
from kedge.diagnose.rules.literal_lines import LiteralLines
from kedge.diagnose.rules.literal_search import FEW, SHORT, LiteralSearch
from kedge.diagnose.rules.packaged import packaged

LIMIT = 5
CHOSEN = random.Random(5)
LITERALS = [(one.text, one.any_case) for one in CHOSEN.sample(packaged().literals(), 60)]
OVERLAPPING = [(b"----", False), (b"abcab", False), (b"failed to", True)]
WORDS = [text for text, _ in LITERALS + OVERLAPPING] + [
    b"--------- ",
    b"abcabcabcab",
    b"FAILED TO",
    b"\xff",
    b"\xc9tat",
]


def slowly(log: Log, literal: bytes, any_case: bool, limit: int) -> list[LogLine]:
    """The last lines with a literal, from a search that goes from one to the one before."""
    text = log.text.lower() if any_case else log.text
    lines: list[LogLine] = []
    end = len(text)
    while len(lines) < limit and (found := text.rfind(literal, 0, end)) >= 0:
        lines.append(log.line(found))
        end = min(found, lines[-1].start)
    return lines


@pytest.mark.parametrize("words", [0, 1, 4, 2000], ids=["filler", "short", "longer", "very long"])
@pytest.mark.parametrize("literals", [OVERLAPPING, LITERALS], ids=["few", "many"])
@pytest.mark.parametrize("end", [b"\n", b""], ids=["with newline", "without newline"])
def test_the_last_lines_with_each_literal(words: int, literals: list[tuple[bytes, bool]], end: bytes) -> None:
    assert len(OVERLAPPING) <= FEW < len(LITERALS)
    lines = [b"[rank%d]: " % n + b" ".join(CHOSEN.choices(WORDS, k=words)) for n in range(400 // (words or 1) + 3)]
    text = b"\n".join([b"." * SHORT, *lines]) + end
    search = LiteralSearch(literals)
    found = search.occurring(text)
    assert bool(found) == bool(words)
    tried, expected = Log("log", text), Log("log", text)
    at_once = LiteralLines(tried, (0, len(text)), search, found, LIMIT)
    for number in found:
        assert at_once.of(number, LIMIT) == slowly(expected, *literals[number], LIMIT)
        assert at_once.of(number, 2) == at_once.of(number, LIMIT)[:2]
    assert (max(map(len, lines)) > LONGEST) == (words == 2000)


@pytest.mark.parametrize("literals", [OVERLAPPING, LITERALS], ids=["few", "many"])
def test_pieces_with_their_literals(literals: list[tuple[bytes, bool]]) -> None:
    lines = [
        CHOSEN.choice(WORDS[:30] + WORDS[-5:] * 3) + b"." * CHOSEN.choice([1, SHORT + 1]) + b"\n" for _ in range(40)
    ]
    pieces = list(pairwise(accumulate(map(len, lines), initial=0)))[::-1]
    search = LiteralSearch(literals)
    found = list(search.in_pieces(b"".join(lines), pieces))
    assert found == [(piece, LiteralSearch(literals).occurring(b"".join(lines), *piece)) for piece in pieces]
    assert any(numbers for _, numbers in found)


@pytest.mark.parametrize("memory", [24 << 20, 1 << 18], ids=["one set", "too large for one set"])
def test_each_line_with_its_literals(memory: int) -> None:
    search = LiteralSearch([(one.text, one.any_case) for one in packaged().literals()], memory)
    lines = [b" ".join(CHOSEN.choices(WORDS, k=3)) for _ in range(200)]
    for line, numbers in search.in_lines(lines):
        lower = line.lower()
        expected = {n for n, (text, any_case) in enumerate(search.literals) if text in (lower if any_case else line)}
        assert {number for number in numbers if number < len(search.literals)} == expected
