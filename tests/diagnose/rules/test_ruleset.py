"""The set that says which rules a text can match."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kedge.diagnose.log.log_text import Log
from kedge.diagnose.rules import compiled_rules, scan
from kedge.diagnose.rules.literal_search import SHORT, LiteralSearch
from kedge.diagnose.rules.packaged import content, packaged
from kedge.diagnose.rules.ruleset import LinePattern, Literal, RuleSet

RULES = packaged()


LITERALS = RULES.literals()


def occurring(literals: list[Literal], text: bytes) -> list[bytes]:
    """What a search must find, the slow way."""
    lower = text.lower()
    return [one.text for one in literals if one.text in (lower if one.any_case else text)]


def found(search: LiteralSearch, text: bytes) -> list[bytes]:
    return [search.literals[number][0] for number in search.occurring(text)]


@pytest.mark.parametrize("memory", [24 << 20, 1 << 18], ids=["one set", "too large for one set"])
@pytest.mark.parametrize("count", [5, len(LITERALS)], ids=["few", "all"])
@pytest.mark.parametrize("length", [0, 2 * SHORT], ids=["short", "long"])
def test_it_finds_exactly_what_occurs(count: int, length: int, memory: int) -> None:
    chosen = random.Random(3)
    literals = chosen.sample(LITERALS, count)
    search = LiteralSearch([(one.text, one.any_case) for one in literals], memory)
    filler = b"." * length
    for _ in range(20):
        text = filler + b" ".join(literal.text for literal in chosen.sample(literals, 5)) + filler
        assert found(search, text) == occurring(literals, text)
    assert found(search, filler) == found(search, filler + b"epoch 1 loss 0.5\n") == []


@pytest.mark.parametrize("length", [0, 2 * SHORT], ids=["short", "long"])
def test_every_literal_that_occurs_may_occur(length: int) -> None:
    filler = b"." * length
    for literal in LITERALS:
        assert literal in RULES.literals(filler + literal.text + filler)
        assert not literal.any_case or literal in RULES.literals(filler + literal.text.upper() + filler)
    assert RULES.literals(b"") == RULES.literals(filler + b"epoch 1 loss 0.5\n") == []


def test_case_matters_only_where_a_rule_says_so() -> None:
    search = LiteralSearch([(one.text, one.any_case) for one in LITERALS])
    literal = next(literal for literal in LITERALS if literal.any_case)
    assert LITERALS.index(literal) in search.occurring(literal.text.upper())
    assert not search.occurring(b"cuda OUT OF MEMORY. tried")


def test_a_rule_that_replaces_another_takes_its_place() -> None:
    own = compiled_rules.of([_rule("license-server", "license server refused"), _rule("torch-cuda-oom", "GPU is full")])
    rules = RuleSet(content(), compiled_rules.parse(compiled_rules.text(own)))
    names = [rule.name for rule in rules.rules()]
    assert names == [*(rule.name for rule in RULES.rules()), "license-server"]
    place = names.index("torch-cuda-oom")
    assert [(place, 0)] in [one.users for one in rules.literals(b"GPU is full")]
    assert not any(place in dict(one.users) for one in rules.literals(b"CUDA out of memory. Tried to allocate 2 GiB"))


def test_rules_with_the_same_text_share_it() -> None:
    files = [compiled_rules.of([_rule(name, 'cat ": " \\ é')]) for name in ("one", "two")]
    (literal,) = RuleSet(*map(compiled_rules.parse, map(compiled_rules.text, files))).literals('cat ": " \\ é'.encode())
    assert literal.users == [(0, 0), (1, 0)]


def _rule(name: str, text: str) -> list[Any]:
    return [name, "bad_config", "root", 50, "error", [], [], [], [[text, [text], False]], []]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("^b.*z$", {1}), ("[ac]$", {0, 3}), ("^x", set()), ("a\\sb", {0, 1}), ("[^q]+", {0, 1, 2, 3})],
)
def test_a_pattern_is_tried_on_several_lines_at_once(text: str, numbers: set[int]) -> None:
    pattern = LinePattern(f"(?m){text}", [], False, [], False)
    assert pattern.possible(b"a\nbcz\nd\nc") == numbers


@pytest.mark.parametrize("text", ["\\Ab c d", "b c d\\z", "(?-m)^b c d"])
def test_a_pattern_for_a_line_alone_is_tried_on_each(text: str) -> None:
    rule = _rule("alone", text)
    rule[8][0][1] = ["b c d"]
    lines = b"".join(b"a%d\n" % n + b"b c d\n" for n in range(20))
    rules = RuleSet(compiled_rules.of([rule]))
    assert len(scan.scan(Log("log", lines), rules)) == 20


@pytest.mark.parametrize("content", [b"", b"[]", b'{"causes": {}}', b"[1,\n2]\n"])
def test_what_is_not_compiled_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"compiled|JSON|Expecting"):
        compiled_rules.parse(content)


def test_rules_and_causes_are_loaded() -> None:
    assert len(RULES) == len(RULES.rules())
    assert {rule.cause for rule in RULES.rules()} <= set(RULES.causes())
