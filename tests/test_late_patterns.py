from __future__ import annotations

import re

import pytest

from kedge.late_patterns import compiled_late, late_pattern


def test_it_finds_what_a_compiled_pattern_finds() -> None:
    late = late_pattern(r"(?P<key>\w+)=", re.ASCII)
    for _ in range(2):
        assert late.sub(r"\1:", "a=1 b=2") == "a:1 b:2"
        assert [found["key"] for found in late.finditer("a=1 b=2")] == ["a", "b"]
    assert (late.groups, late.groupindex, late.pattern) == (1, {"key": 1}, r"(?P<key>\w+)=")
    assert late_pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_a_wrong_pattern_fails_on_its_first_use() -> None:
    late = late_pattern("(")
    with pytest.raises(re.error):
        late.search("")


def test_patterns_made_in_the_context_are_late() -> None:
    with compiled_late():
        late = re.compile("x+")
    assert not isinstance(late, re.Pattern)
    assert late.fullmatch("xx")
    assert isinstance(re.compile("x+"), re.Pattern)
