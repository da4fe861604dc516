"""Rules as a diagnosis uses them: plain data, with RE2 objects only for the patterns that a log can match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import re2

from kedge.diagnose.model import Cause
from kedge.diagnose.regex import options, over_characters

# RE2 reports "no match" when its automaton runs out of memory. Its default of 8 MiB is enough for the packaged rules;
# ten times as many rules were thirteen times slower with it on a log of near misses.
SET_MEMORY = 24 << 20  # bytes
SENTINEL = rb"\z"  # matches at the end of every text, so a set that does not report it has given up
LONGEST = 16  # bytes of a text; longer ones make the set slower to build and hardly more selective


class Rule(NamedTuple):
    """One rule, see stock/README.md. A pattern is [text, required texts, whether it ignores case].

    `remedy` lists the steps to take, if they are more specific than those of the cause.
    """

    name: str
    cause: str
    role: str
    rank: int
    where: str
    exit_codes: Sequence[int]
    when: Sequence[Any]
    evidence: Sequence[Any]
    patterns: Sequence[Any]
    remedy: Sequence[str] = ()


class Literal(NamedTuple):
    """A constant text (lower case if case is ignored), and the (rule, pattern) indices that need it."""

    text: bytes
    any_case: bool
    users: list[tuple[int, int]]


class RuleSet:
    """The causes, the rules, and the set that finds which rules can match a text."""

    def __init__(self, causes: dict[str, Any], rules: Sequence[Sequence[Any]], memory: int = SET_MEMORY) -> None:
        self._causes = causes
        self._rules = rules
        self.literals = _literals(rules)
        self._sets = _sets(self.literals, memory=memory)

    def __len__(self) -> int:
        return len(self._rules)

    def rule(self, index: int) -> Rule:
        """The rule at an index from `hits`."""
        return Rule(*self._rules[index])

    def rules(self) -> list[Rule]:
        """All rules, in the order of their files."""
        return [Rule(*fields) for fields in self._rules]

    def cause(self, name: str) -> Cause:
        """A cause by its name."""
        fields = self._causes[name]
        remedy, subject = tuple(fields["remedy"]), tuple(fields.get("subject", ()))
        return Cause(fields["meaning"], fields["owner"], fields["behaviour"], remedy, subject)

    def remedy(self, name: str, facts: Mapping[str, float]) -> tuple[str, ...]:
        """The steps of the rule with this name. Sentences with a fact that is not known are left out."""
        found = next((Rule(*fields).remedy for fields in self._rules if fields[0] == name), ())
        sentences = (_filled(text, facts) for text in found)
        return tuple(text for text in sentences if "{" not in text)

    def causes(self) -> list[str]:
        """The names of all causes."""
        return list(self._causes)

    def pattern(self, rule: int, pattern: int) -> Any:
        """A compiled pattern; it is compiled at the first call."""
        return over_characters(self._rules[rule][8][pattern][0])

    def hits(self, text: bytes) -> set[int]:
        """The indices of the literals that occur in `text`."""
        found: set[int] = set()
        for first, searcher in self._sets:
            found |= _matches(searcher, first, text)
        return found


def _filled(text: str, facts: Mapping[str, float]) -> str:
    for name, value in facts.items():
        text = text.replace(f"{{{name}}}", f"{value:.0f}")
    return text


def _literals(rules: Sequence[Sequence[Any]]) -> list[Literal]:
    users: dict[tuple[bytes, bool], list[tuple[int, int]]] = {}
    for r, rule in enumerate(rules):
        for p, (_, texts, any_case) in enumerate(rule[8]):
            for text in texts:
                key = (text.lower() if any_case else text).encode()[:LONGEST], any_case
                if (r, p) not in (known := users.setdefault(key, [])):
                    known.append((r, p))
    return [Literal(text, any_case, found) for (text, any_case), found in users.items()]


def _sets(literals: Sequence[Literal], first: int = 0, memory: int = SET_MEMORY) -> list[tuple[int, Any]]:
    """(index of its first literal, RE2 set): one set, or several if RE2 cannot hold all literals in one."""
    searcher = re2.Set.SearchSet(options(memory))
    searcher.Add(SENTINEL)
    for text, any_case, _ in literals:
        quoted = re2.escape(text)
        searcher.Add(b"(?i:" + quoted + b")" if any_case else quoted)
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
