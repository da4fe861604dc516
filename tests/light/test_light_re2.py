"""The light stand-in for re2 behaves like it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
import re2 as model
from hypothesis import given
from hypothesis import strategies as st

from kedge.light import re2
from kedge.light.functools import cache, cached_property

PATTERNS = [
    b"a",
    b"(a)|(b)",
    b"b*",
    b"$",
    rb"\bx",
    rb"(?P<one>a(?P<two>b)?)|(?P<three>c+)",
    b"(?m)^.",
    b"((a)b)",
    "é".encode(),
]
PARTS = st.sampled_from([b"a", b"b", b"c", b"x", b" ", b"\n", "é".encode(), b"\xff"])
TEXTS = st.lists(PARTS, max_size=12).map(b"".join)


def chosen(library: Any) -> Any:
    options = library.Options()
    options.log_errors = False
    return options


def shown(found: Any) -> Any:
    """Everything that a match tells."""
    if found is None:
        return None
    names, count = found.re.groupindex, found.re.groups
    groups = [(found.group(n), found[n], found.start(n), found.end(n), found.span(n)) for n in range(count + 1)]
    return groups, found.groups(), found.groupdict(), [found[n] for n in names], found.lastindex, found.lastgroup


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=TEXTS, start=st.integers(0, 14), end=st.none() | st.integers(0, 14))
def test_the_same_matches(pattern: bytes, text: bytes, start: int, end: int | None) -> None:
    light, heavy = re2.compile(pattern, chosen(re2)), model.compile(pattern, chosen(model))
    assert (light.pattern, light.groups, light.groupindex) == (heavy.pattern, heavy.groups, heavy.groupindex)
    assert shown(light.search(text)) == shown(heavy.search(text))
    assert shown(light.search(text, start, end)) == shown(heavy.search(text, start, end))
    assert shown(light.match(text)) == shown(heavy.match(text))
    assert [*map(shown, light.finditer(text))] == [*map(shown, heavy.finditer(text))]


@given(st.lists(st.sampled_from(PATTERNS), min_size=1), TEXTS)
def test_the_same_sets(patterns: list[bytes], text: bytes) -> None:
    sets = [re2.Set.SearchSet(chosen(re2)), model.Set.SearchSet(chosen(model))]
    for one in sets:
        for pattern in patterns:
            one.Add(pattern)
        one.Compile()
    light, heavy = (one.Match(text) for one in sets)
    assert light == heavy
    assert sets[0].Match(memoryview(text)) == light


@pytest.mark.parametrize("pattern", [b"(", b"a**", rb"\1", b"[a"])
def test_the_same_errors(pattern: bytes) -> None:
    with pytest.raises(model.error) as expected:
        model.compile(pattern, chosen(model))
    with pytest.raises(model.error) as found:
        re2.compile(pattern, chosen(re2))
    assert found.value.args == expected.value.args
    for library in (re2, model):
        with pytest.raises(model.error, match="failed to add"):
            library.Set.SearchSet(chosen(library)).Add(pattern)


def test_texts_are_quoted_alike() -> None:
    every = bytes(range(256))
    assert re2.escape(every) == model.escape(every)


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    @cached_property
    def value(self) -> int:
        self.calls += 1
        return self.calls


def test_values_are_kept() -> None:
    calls: list[tuple[int, ...]] = []

    @cache
    def total(*numbers: int) -> int:
        calls.append(numbers)
        return sum(numbers)

    assert [total(), total(1, 2), total(1, 2), total()] == [0, 3, 3, 0]
    assert calls == [(), (1, 2)]
    one, other = Counted(), Counted()
    assert (one.value, one.value, one.calls, other.calls) == (1, 1, 1, 0)
    assert pickle.loads(pickle.dumps(one)).value == 1


def test_another_version_of_re2_is_used_with_its_own_python_side() -> None:
    program = "import re2; del re2._re2.Error; from kedge.light import re2 as ours; assert ours.compile is re2.compile"
    subprocess.run([sys.executable, "-c", program], check=True)
