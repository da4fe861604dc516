"""The set that says which rules a text can match."""

from __future__ import annotations

import random

import pytest

from kedge.diagnose.rules.packaged import content, packaged
from kedge.diagnose.rules.ruleset import RuleSet

RULES = packaged()


def occurring(text: bytes) -> set[int]:
    """What the set must find, the slow way."""
    lower = text.lower()
    return {n for n, (literal, any_case, _) in enumerate(RULES.literals) if literal in (lower if any_case else text)}


@pytest.mark.parametrize("memory", [24 << 20, 1 << 18], ids=["one set", "too large for one set"])
def test_it_finds_exactly_what_occurs(memory: int) -> None:
    data = content()
    rules = RuleSet(data["causes"], data["rules"], memory)
    chosen = random.Random(3)
    for _ in range(20):
        text = b" ".join(literal.text for literal in chosen.sample(RULES.literals, 5))
        assert rules.hits(text) == occurring(text)
    assert rules.hits(b"") == rules.hits(b"epoch 1 loss 0.5\n") == set()


def test_case_matters_only_where_a_rule_says_so() -> None:
    literal = next(literal for literal in RULES.literals if literal.any_case)
    assert RULES.literals.index(literal) in RULES.hits(literal.text.upper())
    assert not RULES.hits(b"cuda OUT OF MEMORY. tried")


def test_rules_and_causes_are_loaded() -> None:
    assert len(RULES) == len(RULES.rules())
    assert {rule.cause for rule in RULES.rules()} <= set(RULES.causes())
