"""Which texts a pattern cannot match without."""

from __future__ import annotations

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from kedge.diagnose.rules.literals import required
from kedge.diagnose.rules.packaged import packaged


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"(?:CUDA|HIP) out of memory\.", (" out of memory.",)),
        (r"a(?:bcde|fghij)+x", ("bcde", "fghij")),
        (r"(?i)colou?rful", ("colo",)),
        (r"^Killed$", ("Killed",)),
        (r"[^]a]hello\s+(?P<x>\d+) worlds", (" worlds",)),
        (r"abcd{0,3}efghi", ("efghi",)),
        (r"(?:maybe)?certain", ("certain",)),
        (r"\x41\pLword\p{Greek}", ("word",)),
        (r"left|right", ("left", "right")),
        (r"[[:alpha:]]text", ("text",)),
    ],
)
def test_required(pattern: str, texts: tuple[str, ...]) -> None:
    assert required(pattern) == texts


@pytest.mark.parametrize("pattern", [r".*", r"abc", r"left|.", r"(?:word)*", r"\d+ab"])
def test_nothing_is_required(pattern: str) -> None:
    assert required(pattern) is None


ATOMS = st.sampled_from(["abcd", "efgh", "x", ".", r"\d", "[ab]", r"\.", " ", "(?:ijkl|mnop)", "(?:qr)"])
QUANTIFIERS = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{0,2}", "+?"])
PIECES = st.lists(st.tuples(ATOMS, QUANTIFIERS), min_size=1, max_size=6).map(lambda ps: "".join(a + q for a, q in ps))


@given(PIECES, st.text("abcdefghijklmnopqrx1. ", max_size=40))
def test_a_match_always_holds_one_of_them(pattern: str, text: str) -> None:
    texts = required(pattern)
    if texts and re2.search(pattern, text):
        assert any(t in text for t in texts)


def test_every_rule_has_required_texts() -> None:
    assert all(required(pattern) for rule in packaged().rules() for pattern, _, _ in rule.patterns)
