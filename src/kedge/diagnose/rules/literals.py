"""Constant texts that every match of a regular expression must contain.

One RE2 set of these texts finds in a single pass which rules can match a log at all. For a pattern the result is a
tuple of texts; every match contains at least one of them: `(?:CUDA|HIP) out of memory` gives (" out of memory",).
"""

from __future__ import annotations

from typing import NamedTuple

ENOUGH = 4  # characters; shorter texts occur in every log


class RequiredTexts(NamedTuple):
    """The best texts of a part of a pattern (None if it has none), and where the part ends."""

    texts: tuple[str, ...] | None
    end: int


def required(pattern: str) -> tuple[str, ...] | None:
    """Texts, one of which is in every match of `pattern` (RE2 syntax). None if there are none with 4 characters."""
    texts = _alternatives(pattern, 0).texts
    return texts if texts and len(min(texts, key=len)) >= ENOUGH else None


def _alternatives(pattern: str, i: int) -> RequiredTexts:
    branches = []
    while True:
        found = _sequence(pattern, i)
        branches.append(found.texts)
        i = found.end
        if i >= len(pattern) or pattern[i] == ")":
            texts = [t for branch in branches for t in branch or ()]
            return RequiredTexts(tuple(dict.fromkeys(texts)) if all(branches) else None, i)
        i += 1


def _sequence(pattern: str, i: int) -> RequiredTexts:
    best: tuple[str, ...] | None = None
    run = ""
    while i < len(pattern) and pattern[i] not in "|)":
        atom, texts, i = _atom(pattern, i)
        optional, repeated, i = _quantifier(pattern, i)
        if atom and not optional:
            run += atom
        if atom is None or optional or repeated:
            best, run = _better(best, (run,)), ""
        if texts and not optional:
            best = _better(best, texts)
    return RequiredTexts(_better(best, (run,)), i)


def _better(a: tuple[str, ...] | None, b: tuple[str, ...]) -> tuple[str, ...] | None:
    shortest = min(len(text) for text in b)
    if shortest == 0:
        return a
    return b if a is None or shortest > min(len(text) for text in a) else a


def _atom(pattern: str, i: int) -> tuple[str | None, tuple[str, ...] | None, int]:
    """(a constant character, "" for an empty atom, None for others; a group's texts; where the next atom starts)."""
    c = pattern[i]
    if c == "(":
        return _group(pattern, i)
    if c == "[":
        return None, None, _class_end(pattern, i)
    if c == "\\":
        return _escape(pattern, i)
    varies = not c.isascii() and c.lower() != c.upper()  # under (?i), because logs are lowered in ASCII only
    return (None if c in ".^$" or varies else c), None, i + 1


def _group(pattern: str, i: int) -> tuple[str | None, tuple[str, ...] | None, int]:
    start = i + 1
    if pattern.startswith("(?P<", i):
        start = pattern.index(">", i) + 1
    elif pattern.startswith("(?", i):
        while pattern[start] not in ":)":
            start += 1
        if pattern[start] == ")":  # flags alone: (?i)
            return "", None, start + 1
        start += 1
    found = _alternatives(pattern, start)
    return None, found.texts, found.end + 1


def _class_end(pattern: str, i: int) -> int:
    i += 2 if pattern[i + 1] == "^" else 1
    first = i
    while pattern[i] != "]" or i == first:
        if pattern.startswith("[:", i):
            i = pattern.index(":]", i) + 1
        i += 2 if pattern[i] == "\\" else 1
    return i + 1


def _escape(pattern: str, i: int) -> tuple[str | None, None, int]:
    c = pattern[i + 1]
    if not c.isalnum():
        return c, None, i + 2
    if c in "pPx" and pattern.startswith("{", i + 2):
        return None, None, pattern.index("}", i) + 1
    return None, None, i + {"x": 4, "p": 3, "P": 3}.get(c, 2)


def _quantifier(pattern: str, i: int) -> tuple[bool, bool, int]:
    """(it may be absent, it is repeated, where the next atom starts)."""
    c = pattern[i : i + 1]
    if c == "{" and pattern[i + 1 : i + 2].isdigit():
        optional, i = pattern[i + 1] == "0", pattern.index("}", i) + 1
    elif c in ("?", "*", "+"):
        optional, i = c != "+", i + 1
    else:
        return False, False, i
    return optional, True, i + (pattern[i : i + 1] == "?")
