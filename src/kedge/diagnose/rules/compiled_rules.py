"""The compiled form of rules: JSON with one rule a line, so that only the rules that a log can match are parsed.

    {"causes": {…},
    "beginnings": ["out of", …],
    "literals": [
    [[7, "out of memory", true, [[12, 0], [40, 1]]], …],
    …
    ],
    "rules": [
    ["torch-cuda-oom", …],
    …
    ]}

Every match of a pattern contains one of a few constant texts (literals.py). Thousands of them share far fewer
beginnings: their first bytes in lower case. For each beginning there is a line of literals: number, text, whether case
is ignored, and the (rule, pattern) indices that need it. Bytes are written as Latin-1.
"""

from __future__ import annotations

from kedge.light import json
from kedge.light.types import Any, Mapping, NamedTuple, Sequence

BEGINNING = 6  # bytes
LONGEST = 16  # bytes of a text that are searched; more make a search slower to build and hardly more selective
_LITERALS, _RULES, _END = b',\n"literals": [\n', b'\n],\n"rules": [\n', b"\n]}\n"
_NEXT = b",\n"


class CompiledRules(NamedTuple):
    """Causes, literals and rules as in the file. Literals (by their beginning) and rules (lists of source.FIELDS) are
    still JSON."""

    causes: Mapping[str, Any]
    literals: Mapping[bytes, bytes]
    rules: Sequence[bytes]


def of(rules: Sequence[Sequence[Any]], causes: Mapping[str, Any] | None = None) -> CompiledRules:
    """The compiled form of rules that source.py has read."""
    users: dict[tuple[bytes, bool], list[tuple[int, int]]] = {}
    for r, rule in enumerate(rules):
        for p, (_, texts, any_case) in enumerate(rule[8]):
            for text in texts:
                known = users.setdefault((_searched(text, any_case), any_case), [])
                if (r, p) not in known:
                    known.append((r, p))
    grouped: dict[bytes, list[Any]] = {}
    for number, ((literal, any_case), found) in enumerate(users.items()):
        entry = [number, literal.decode("latin-1"), any_case, found]
        grouped.setdefault(literal[:BEGINNING].lower(), []).append(entry)
    literals = {beginning: _json(found) for beginning, found in grouped.items()}
    return CompiledRules(causes or {}, literals, [_json(rule) for rule in rules])


def _searched(text: str, any_case: bool) -> bytes:
    return (text.lower() if any_case else text).encode()[:LONGEST]


def text(rules: CompiledRules) -> bytes:
    """The content of a file of compiled rules."""
    beginnings = [beginning.decode("latin-1") for beginning in rules.literals]
    head = b'{"causes": %s,\n"beginnings": %s' % (_json(rules.causes), _json(beginnings))
    return head + _LITERALS + _NEXT.join(rules.literals.values()) + _RULES + _NEXT.join(rules.rules) + _END


def parse(content: bytes) -> CompiledRules:
    """The inverse of `text`. ValueError if it is something else."""
    head = content.find(_LITERALS)
    middle = content.find(_RULES, head)
    if head < 0 or middle < 0 or not content.endswith(_END):
        raise ValueError("these are not compiled rules")
    data = json.loads(content[:head] + b"}")
    beginnings = [beginning.encode("latin-1") for beginning in data["beginnings"]]
    literals = _lines(content[head + len(_LITERALS) : middle])
    rules = _lines(content[middle + len(_RULES) : -len(_END)])
    return CompiledRules(data["causes"], dict(zip(beginnings, literals, strict=True)), rules)


def _lines(joined: bytes) -> list[bytes]:
    return joined.split(_NEXT) if joined else []


def named(rules: Sequence[bytes], name: str) -> bytes | None:
    """The rule with this name."""
    start = f"[{json.quoted(name)},".encode()
    return next((rule for rule in rules if rule.startswith(start)), None)


def merged(files: Sequence[CompiledRules]) -> tuple[list[bytes], list[Sequence[int]]]:
    """The rules of several files, where a rule replaces an earlier one with the same name; and for each file the
    numbers that its rules have among them, -1 for a rule that has been replaced."""
    if len(files) == 1:
        return list(files[0].rules), [range(len(files[0].rules))]
    numbers: dict[bytes, int] = {}
    places = [[numbers.setdefault(_name(rule), len(numbers)) for rule in file.rules] for file in files]
    latest = {number: (f, r) for f, found in enumerate(places) for r, number in enumerate(found)}
    kept = [[n if latest[n] == (f, r) else -1 for r, n in enumerate(found)] for f, found in enumerate(places)]
    return [files[f].rules[r] for f, r in map(latest.__getitem__, range(len(latest)))], [*kept]


def _json(value: Any) -> bytes:
    import json  # not while a task is diagnosed: only where rules are compiled

    return json.dumps(value, ensure_ascii=False).encode()


def _name(rule: bytes) -> bytes:
    return rule[: rule.index(b'"', 2)]
