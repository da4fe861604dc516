"""Conditions over numbers."""

from __future__ import annotations

import json

import pytest

from kedge.diagnose.rules.expression import holds, names, parse, quantity


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("total - own - free <= own", True),
        ("total / 2 > own * 3", False),
        ("own == 6 and not free > 1", True),
        ("own != 6 or total > 9.5", True),
        ("missing > 0", False),
        ("total / (own - 6) > 0", False),
    ],
)
def test_conditions(text: str, true: bool) -> None:
    compiled = json.loads(json.dumps(parse(text)))
    assert holds(compiled, {"total": 10.0, "own": 6.0, "free": 1.0}) is true


def test_names() -> None:
    assert names(parse("a - b > 0 and not c < 1")) == {"a", "b", "c"}


@pytest.mark.parametrize("text", ["f(1)", "a.b > 0", "a >", "'x' == a", "1 < a < 3", "a ** 2 > 1", "a[0] > 1"])
def test_invalid_conditions(text: str) -> None:
    with pytest.raises(ValueError, match="condition"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5 GiB", 1.5 * 2**30),
        ("24.5MB", 24.5 * 2**20),
        ("12", 12.0),
        ("8 bytes", 8.0),
        ("1,024 KiB", 2**20),
        ("x", None),
    ],
)
def test_quantities(text: str, value: float | None) -> None:
    assert quantity(text) == value
