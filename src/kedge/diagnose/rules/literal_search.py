"""Which of many constant texts occur in a text: found in the way that is fastest for their number and its length."""

from __future__ import annotations

from kedge.diagnose.regex import options, regex
from kedge.light import re2
from kedge.light.types import Any, Iterable, Iterator, NamedTuple, Sequence

# RE2 reports "no match" when its automaton runs out of memory. Its default of 8 MiB made ten times as many rules
# thirteen times slower on a log of near misses.
SET_MEMORY = 24 << 20  # bytes
SENTINEL = rb"\z"  # matches at the end of every text, so a set that does not report it has given up
SHORT = 4 << 10  # bytes; in shorter texts, searching for each literal takes less time than building a set
FEW = 8  # RE2 searches for a single literal with vector instructions, twenty times as fast as for a set

Span = tuple[int, int]  # where a piece starts and ends in a text
Literals = Sequence[tuple[bytes, bool]]  # a text (lower case if case is ignored), and whether case is ignored


class LiteralSearch:
    """Finds which literals occur in a text, by their numbers. What it needs is built at first use."""

    def __init__(self, literals: Literals, memory: int = SET_MEMORY) -> None:
        self.literals = literals
        self._memory = memory
        self._sets: list[_Part] | None = None
        self._single: list[Any] | None = None

    def occurring(self, text: bytes, start: int = 0, end: int | None = None) -> list[int]:
        """The numbers of the literals that occur in text[start:end], in ascending order."""
        end = len(text) if end is None else min(end, len(text))
        if self._sets is None and end - start <= SHORT:
            part = text[start:end]
            lower = part.lower()
            return [n for n, (one, any_case) in enumerate(self.literals) if one in (lower if any_case else part)]
        if len(self.literals) <= FEW:
            return [n for n, one in enumerate(self._singles()) if one.search(text, start, end)]
        view = memoryview(text)[start:end]  # a copy would take a fifth of the time of the search
        return sorted(n for one in self._built() for n in _matches(one, view))

    def in_pieces(self, text: bytes, pieces: Sequence[Span]) -> Iterator[tuple[Span, list[int]]]:
        """Each piece of `text` with the numbers of the literals that occur in it. The pieces adjoin each other."""
        if len(self.literals) > FEW:
            yield from ((piece, self.occurring(text, *piece)) for piece in pieces)
            return
        found: dict[Span, list[int]] = {piece: [] for piece in pieces}
        for number in range(len(self.literals)):
            for piece in self._pieces_with(number, text, sorted(pieces)):
                found[piece].append(number)
        yield from found.items()

    def _pieces_with(self, number: int, text: bytes, pieces: Sequence[Span]) -> Iterator[Span]:
        """The pieces that contain a literal. A search goes on over the pieces without it, which takes less time than a
        search in each."""
        length, place, end = len(self.literals[number][0]), -1, pieces[-1][1]
        for piece in pieces:
            if place < piece[0]:
                found = self._singles()[number].search(text, piece[0], end)
                place = found.start() if found else end
            if place + length <= piece[1]:
                yield piece

    def places(self, number: int, text: bytes, most: int) -> list[int] | None:
        """Where a literal occurs, without overlaps, in ascending order. None if there are many literals, or more than
        `most` places: then it takes less time to look for them from the end."""
        if len(self.literals) > FEW:
            return None
        found = self._singles()[number].finditer(text)
        places = [one.start() for one, _ in zip(found, range(most + 1), strict=False)]
        return places if len(places) <= most else None

    def in_lines(self, lines: Iterable[bytes]) -> Iterator[tuple[bytes, Iterable[int]]]:
        """Each line with the numbers of the literals that occur in it, and perhaps a number that no literal has."""
        sets = self._built()
        search = sets[0].searcher.Match if len(sets) == 1 else _gives_up
        for line in lines:
            yield line, search(line) or [n for one in sets for n in _matches(one, line)]

    def _singles(self) -> list[Any]:
        if self._single is None:
            self._single = [regex(_quoted(*literal)) for literal in self.literals]
        return self._single

    def _built(self) -> list[_Part]:
        if self._sets is None:
            self._sets = _sets(self.literals, 0, self._memory)
        return self._sets


def _quoted(text: bytes, any_case: bool) -> bytes:
    quoted: bytes = re2.escape(text)
    return b"(?i:" + quoted + b")" if any_case else quoted


def _gives_up(_: bytes) -> list[int]:
    return []


class _Part(NamedTuple):
    """An RE2 set of the literals with the numbers from `first`; it reports the sentinel as number `last`."""

    first: int
    last: int
    searcher: Any


def _sets(literals: Literals, first: int, memory: int) -> list[_Part]:
    """One set, or several if RE2 cannot hold all literals in one."""
    searcher = re2.Set.SearchSet(options(memory))
    for literal in literals:
        searcher.Add(_quoted(*literal))
    searcher.Add(SENTINEL)
    try:
        searcher.Compile()
    except re2.error:
        if len(literals) < 2:
            raise
        half = len(literals) // 2
        return _sets(literals[:half], first, memory) + _sets(literals[half:], first + half, memory)
    return [_Part(first, first + len(literals), searcher)]


def _matches(part: _Part, text: bytes | memoryview) -> set[int]:
    found = part.searcher.Match(text)
    if found is None and len(text) > 1:  # the set gave up; smaller texts need fewer states
        half = len(text) // 2
        overlap = min(256, half)
        return _matches(part, text[: half + overlap]) | _matches(part, text[half:])
    return {part.first + index for index in found or ()} - {part.last}
