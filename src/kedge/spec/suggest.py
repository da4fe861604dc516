"""The valid name that a user most likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from kedge.spec.text import quote

# Comparing is slow, and nobody reads a guess out of a thousand names.
_MOST_NAMES = 300
_LONGEST_NAME = 80


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is most like `name`, if any is much like it. Upper and lower case are alike; of names
    that differ in nothing else it is the first."""
    if len(name) > _LONGEST_NAME:
        return None
    known: dict[str, str] = {}
    for other in islice(names, _MOST_NAMES):
        if len(other) <= _LONGEST_NAME:
            known.setdefault(other.lower(), other)
    found = difflib.get_close_matches(name.lower(), known, n=1)
    return known[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: `; did you mean 'lr'?`, or nothing."""
    guess = nearest(name, names)
    return f"; did you mean {quote(guess)}?" if guess else ""


def sentence(hint: str) -> str:
    """A hint such as `; did you mean 'lr'?` as a sentence that follows another one."""
    words = hint.removeprefix("; ")
    return f" {words[:1].upper()}{words[1:]}" if words else ""


def name_list(names: Iterable[str], most: int = 8) -> str:
    """Up to `most` names for a message: `'a', 'b', 'c'`."""
    shown = list(islice(names, most + 1))
    return ", ".join([quote(name) for name in shown[:most]] + ["…"] * (len(shown) > most))
