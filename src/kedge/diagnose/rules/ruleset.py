"""Rules as a diagnosis uses them: plain data, with Python and RE2 objects only for what a log can match."""

from __future__ import annotations

from kedge.diagnose.model import Cause
from kedge.diagnose.regex import over_characters
from kedge.diagnose.rules import compiled_rules
from kedge.diagnose.rules.compiled_rules import CompiledRules
from kedge.diagnose.rules.literal_search import SET_MEMORY, LiteralSearch
from kedge.light import json
from kedge.light.types import Any, Mapping, NamedTuple, Sequence

_OF_WHOLE_TEXT = ("\\A", "\\z", "-m")  # parts of patterns that see whether a line stands alone


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
    """A constant text (lower case if case is ignored), and the (rule, pattern) indices that need it.

    `place` is unique: the first rule and pattern that need it, and its number in their file."""

    place: tuple[int, int, int]
    text: bytes
    any_case: bool
    users: list[tuple[int, int]]


class LinePattern(NamedTuple):
    """A pattern for one line, compiled so that `^` and `$` match at lines: on one line that makes no difference, and on
    several it finds those that can match, unless the pattern sees if a line is `alone`. Every match contains one of the
    `required` texts (in lower case if case is ignored)."""

    text: str
    when: Sequence[Any]
    alone: bool
    required: Sequence[bytes]
    any_case: bool

    @property
    def compiled(self) -> Any:
        """The RE2 object; it is compiled at the first use."""
        return over_characters(self.text)

    def excluded(self, lines: bytes) -> bool:
        """Whether no line can match, because a text is missing. Many lines contain only the beginning of a text, and
        compiling a pattern takes as long as searching 100 KiB for a text."""
        lines = lines.lower() if self.any_case else lines
        return not any(text in lines for text in self.required)

    def possible(self, lines: bytes) -> set[int]:
        """The numbers of the lines (separated by newlines) that can match: those that a match in the whole touches."""
        if self.alone:
            return set(range(lines.count(b"\n") + 1))
        spans = (found.span() for found in self.compiled.finditer(lines))
        ends = ((lines.count(b"\n", 0, start), lines.count(b"\n", 0, end)) for start, end in spans)
        return {number for first, last in ends for number in range(first, last + 1)}


class RuleSet:
    """The causes, the rules, and the search that finds which rules can match a text. Rules are parsed when needed.

    The causes are those of the first file; a rule replaces one with the same name from an earlier file."""

    def __init__(self, *files: CompiledRules, memory: int = SET_MEMORY) -> None:
        self._causes = files[0].causes
        self._files = files
        self._rules, self._numbers = compiled_rules.merged(files)
        self._parsed: dict[int, Rule] = {}
        self._patterns: dict[tuple[int, int], LinePattern] = {}
        self._beginnings = list(dict.fromkeys(beginning for file in files for beginning in file.literals))
        self._search = LiteralSearch([(beginning, True) for beginning in self._beginnings], memory)
        self._literals: dict[int, list[Literal]] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def rule(self, index: int) -> Rule:
        """The rule at an index."""
        rule = self._parsed.get(index)
        if rule is None:
            rule = self._parsed[index] = Rule(*json.loads(self._rules[index]))
        return rule

    def rules(self) -> list[Rule]:
        """All rules, in the order of their files."""
        return [self.rule(index) for index in range(len(self))]

    def cause(self, name: str) -> Cause:
        """A cause by its name."""
        fields = self._causes[name]
        remedy, subject = tuple(fields["remedy"]), tuple(fields.get("subject", ()))
        return Cause(fields["meaning"], fields["owner"], fields["behaviour"], remedy, subject)

    def remedy(self, name: str, facts: Mapping[str, float]) -> tuple[str, ...]:
        """The steps of the rule with this name. Sentences with a fact that is not known are left out."""
        line = compiled_rules.named(self._rules, name) if name else None
        sentences = (_filled(text, facts) for text in (Rule(*json.loads(line)).remedy if line else ()))
        return tuple(text for text in sentences if "{" not in text)

    def causes(self) -> list[str]:
        """The names of all causes."""
        return list(self._causes)

    def pattern(self, rule: int, pattern: int) -> LinePattern:
        """A pattern of a rule."""
        key = rule, pattern
        found = self._patterns.get(key)
        if found is None:
            known = self.rule(rule)
            text, texts, any_case = known.patterns[pattern]
            alone = any(part in text for part in _OF_WHOLE_TEXT)
            required = [(one.lower() if any_case else one).encode() for one in texts]
            found = self._patterns[key] = LinePattern(f"(?m){text}", known.when, alone, required, any_case)
        return found

    def literals(self, text: bytes | None = None, start: int = 0, end: int | None = None) -> list[Literal]:
        """The literals that may occur in text[start:end], because their beginnings do, or all; in the order of the
        rules."""
        numbers = range(len(self._beginnings)) if text is None else self._search.occurring(text, start, end)
        return sorted(literal for number in numbers for literal in self._with_beginning(number))

    def _with_beginning(self, number: int) -> list[Literal]:
        if number not in self._literals:
            self._literals[number] = self._read_literals(self._beginnings[number])
        return self._literals[number]

    def _read_literals(self, beginning: bytes) -> list[Literal]:
        found: dict[tuple[bytes, bool], Literal] = {}
        for file, numbers in zip(self._files, self._numbers, strict=True):
            for number, text, any_case, indices in json.loads(file.literals.get(beginning, b"[]")):
                users = [(numbers[rule], pattern) for rule, pattern in indices if numbers[rule] >= 0]
                literal = Literal((*min(users, default=(0, 0)), number), text.encode("latin-1"), any_case, [])
                found.setdefault((literal.text, any_case), literal).users.extend(users)
        return [literal for literal in found.values() if literal.users]


def _filled(text: str, facts: Mapping[str, float]) -> str:
    for name, value in facts.items():
        text = text.replace(f"{{{name}}}", f"{value:.0f}")
    return text
