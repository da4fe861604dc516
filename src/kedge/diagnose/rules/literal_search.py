"""Which of many constant texts occur in a text: found in the way that is fastest for their number and its length."""

from __future__ import annotations

import re2

from kedge.diagnose.regex import options, regex
from kedge.light.types import Any, Sequence

# RE2 reports "no match" when its automaton runs out of memory. Its default of 8 MiB made ten times as many rules
# thirteen times slower on a log of near misses.
SET_MEMORY = 24 << 20  # bytes
SENTINEL = rb"\z"  # matches at the end of every text, so a set that does not report it has given up
SHORT = 4 << 10  # bytes; in shorter texts, searching for each literal takes less time than building a set
FEW = 8  # RE2 searches for a single literal with vector instructions, twenty times as fast as for a set

Literals = Sequence[tuple[bytes, bool]]  # a text (lower case if case is ignored), and whether case is ignored


class LiteralSearch:
    """Finds which literals occur in a text, by their numbers. What it needs is built at first use."""

    def __init__(self, literals: Literals, memory: int = SET_MEMORY) -> None:
        self.literals = literals
        self._memory = memory
        self._sets: list[tuple[int, Any]] | None = None
        self._single: list[Any] | None = None

    def occurring(self, text: bytes) -> list[int]:
        """The numbers of the literals that occur in `text`, in ascending order."""
        if self._sets is None and len(text) <= SHORT:
            lower = text.lower()
            return [n for n, (one, any_case) in enumerate(self.literals) if one in (lower if any_case else text)]
        if len(self.literals) <= FEW:
            if self._single is None:
                self._single = [regex(_quoted(*literal)) for literal in self.literals]
            return [n for n, one in enumerate(self._single) if one.search(text)]
        if self._sets is None:
            self._sets = _sets(self.literals, 0, self._memory)
        return sorted(n for first, searcher in self._sets for n in _matches(searcher, first, text))


def _quoted(text: bytes, any_case: bool) -> bytes:
    quoted: bytes = re2.escape(text)
    return b"(?i:" + quoted + b")" if any_case else quoted


def _sets(literals: Literals, first: int, memory: int) -> list[tuple[int, Any]]:
    """(number of its first literal, RE2 set): one set, or several if RE2 cannot hold all literals in one."""
    searcher = re2.Set.SearchSet(options(memory))
    searcher.Add(SENTINEL)
    for literal in literals:
        searcher.Add(_quoted(*literal))
    try:
        searcher.Compile()
    except re2.error:
        if len(literals) < 2:
            raise
        half = len(literals) // 2
        return _sets(literals[:half], first, memory) + _sets(literals[half:], first + half, memory)
    return [(first, searcher)]


def _matches(searcher: Any, first: int, text: bytes) -> set[int]:
    found = searcher.Match(text)
    if found is None and len(text) > 1:  # the set gave up; smaller texts need fewer states
        half = len(text) // 2
        overlap = min(256, half)
        return _matches(searcher, first, text[: half + overlap]) | _matches(searcher, first, text[half:])
    return {first + index - 1 for index in found or () if index}
