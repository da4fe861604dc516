"""Guesses the valid name that a user meant."""

from __future__ import annotations

from itertools import islice

from kedge.late_patterns import late_pattern
from kedge.light.types import Iterable
from kedge.spec.message_text import quote

# Comparing is slow, and a guess among a thousand names helps nobody.
_MAX_NAMES = 300
_MAX_NAME_LENGTH = 80
_DID_YOU_MEAN = late_pattern(r"[Dd]id you mean ('[^'…]+'|\"[^\"…]+\")\?")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, if any is similar enough. Case is ignored; of names that differ only in case, the
    first is used."""
    if len(name) > _MAX_NAME_LENGTH:
        return None
    known: dict[str, str] = {}
    for other in islice(names, _MAX_NAMES):
        if len(other) <= _MAX_NAME_LENGTH:
            known.setdefault(other.lower(), other)
    import difflib  # slow to load, and needed only for an error

    found = difflib.get_close_matches(name.lower(), known, n=1)
    return known[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: `; did you mean 'lr'?`, or nothing."""
    guess = nearest(name, names)
    return f"; did you mean {quote(guess)}?" if guess else ""


def suggested(message: str) -> str | None:
    """The name that a message made with `did_you_mean` suggests."""
    import ast  # slow to load, and needed only for an error

    found = _DID_YOU_MEAN.search(message)
    return str(ast.literal_eval(found[1])) if found else None


def sentence(hint: str) -> str:
    """A hint such as `; did you mean 'lr'?` as a sentence of its own, with a leading space."""
    words = hint.removeprefix("; ")
    return f" {words[:1].upper()}{words[1:]}" if words else ""


def name_list(names: Iterable[str], most: int = 8) -> str:
    """Up to `most` names for a message: `'a', 'b', 'c'`."""
    shown = list(islice(names, most + 1))
    return ", ".join([quote(name) for name in shown[:most]] + ["…"] * (len(shown) > most))


def distance(one: str, other: str) -> int:
    """The number of insertions, deletions, replacements and swaps of neighbours between two names."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]


def mistyped(name: str, names: Iterable[str]) -> str | None:
    """The closest of `names` within two typing mistakes of `name` (one for names under six letters); case is
    ignored."""
    lower = name.lower()
    if not 3 <= len(lower) <= _MAX_NAME_LENGTH:
        return None
    most = 1 if len(lower) < 6 else 2
    others = (other for other in islice(names, _MAX_NAMES) if abs(len(other) - len(lower)) <= most)
    near = [(distance(lower, other.lower()), other) for other in others]
    return min((found for found in near if found[0] <= most), default=(0, None))[1]
