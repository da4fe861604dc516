"""The lines and values of a job file's secrets, which no message may show."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kedge.errors import Problem
from kedge.late_patterns import late_pattern
from kedge.masking import MASKED, SHORTEST, SHORTEST_IN_OWN_TEXT
from kedge.spec.message_text import bare, quote
from kedge.spec.scalars import plain

_IN_ADDRESS = late_pattern(r"(?<=://)([^\s/:@<>]*:)([^\s/@<>]+)(?=@)")  # user:password@
_BEFORE_KEY = r"""(?:^[ \t]*(?:[-?][ \t]+)*|[{,]\s*)["']?"""
_SECRETS = late_pattern(rf"""(?im){_BEFORE_KEY}secrets?\w*["']?\s*:""")
_PASSWORD = late_pattern(rf"""(?im){_BEFORE_KEY}password["']?\s*:""")
_NEXT_SECTION = late_pattern(
    r"""(?m)^["']?(?:protocolVersion|name|type|version|contributor|description|prerequisites|parameters|jobRetryCount"""
    r"""|taskRoles|deployments|defaults|extras)["']?\s*:"""
)
_LINE_END = late_pattern(r"\r\n|[\r\n]")
_ALIAS = late_pattern(r"\*([^\s,\[\]{}]+)")


class Hidden(NamedTuple):
    """The places of secrets as sorted (start, end) offsets in the file, and their texts."""

    spans: tuple[tuple[int, int], ...] = ()
    texts: tuple[str, ...] = ()

    def cleaned(self, problem: Problem, line: tuple[int, int], secret: str | None = None) -> Problem:
        """The problem without secrets. `line` holds the offsets of its line; `secret` is the scalar that it is about,
        if that is secret too."""
        excerpt = problem.excerpt
        if self.overlap(*line) or any(text in excerpt for text in self.texts if len(text) >= SHORTEST_IN_OWN_TEXT):
            excerpt = ""
        return problem._replace(
            message=self.text(problem.message, secret),
            suggestion=None if problem.suggestion is None else self.text(problem.suggestion, secret),
            excerpt=_IN_ADDRESS.sub(lambda found: found[1] + "*" * len(found[2]), excerpt),
        )

    def overlap(self, start: int, end: int) -> bool:
        """Whether a secret lies between two offsets, or at the first one."""
        after = bisect_right(self.spans, (max(start + 1, end), -1))
        return any(last > start for _, last in self.spans[:after])

    def text(self, text: str, secret: str | None = None) -> str:
        """The message with all known secrets masked, and `secret`, however short it is."""
        for known in self.texts:
            if len(known) >= SHORTEST:
                text = _without(text, (known, quote(known)[1:-1]))
        if secret:
            text = _without(text, (secret, quote(secret)[1:-1], bare(secret), _number(secret)))
        return without_passwords(text)


def hidden(spans: Iterable[tuple[int, int]], texts: Iterable[str]) -> Hidden:
    """A Hidden for these secrets. Longer texts are masked first."""
    return Hidden(tuple(sorted(set(spans))), tuple(sorted(set(texts), key=lambda text: (-len(text), text))))


def guessed(text: str) -> Hidden:
    """A Hidden for a file that cannot be parsed: everything below keys that may hold secrets, and whatever the aliases
    in there may refer to."""
    found = [*sections(text), *(_section(text, key.start()) for key in _PASSWORD.finditer(text))]
    names = {alias for start, end in found for alias in _ALIAS.findall(text, start, end)}
    anchors = (text.find(f"&{name}") for name in names)
    return hidden([*found, *(_section(text, at) for at in anchors if at >= 0)], ())


def is_name(path: tuple[str | int, ...]) -> bool:
    """Whether the last key of a path among secrets is a name that may be shown, not a misplaced value: it names a
    secret, or has only letters, like all keys of a job."""
    return not path or bool(re.fullmatch(r"(?i)secrets?\w*", str(path[0])) or re.fullmatch("[A-Za-z]+", str(path[-1])))


def sections(text: str) -> list[tuple[int, int]]:
    """Where secrets may be, judged by the text alone: up to the next key of a job, at any indentation."""
    found = []
    for key in _SECRETS.finditer(text):
        start, end = _section(text, key.start())
        after = _NEXT_SECTION.search(text, key.end())
        found.append((start, max(end, after.start() if after else len(text))))
    return found


def without_passwords(text: str) -> str:
    """The text with the password of each address (`https://user:password@host`) masked."""
    return _IN_ADDRESS.sub(rf"\g<1>{MASKED}", text) if "@" in text and "://" in text else text


def _without(text: str, forms: Iterable[str]) -> str:
    for form in filter(None, forms):
        if len(form) >= SHORTEST:
            text = text.replace(form, MASKED)
        elif form in text:  # a short one may be part of another word
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", MASKED, text)
    return text


def _number(secret: str) -> str:
    """The form in which a message shows a secret that is a number; empty for other secrets."""
    try:
        value = plain(secret)
    except ValueError:
        return ""
    return "" if value is None or isinstance(value, str | bool) else f"{value!r:.60}"


def _section(text: str, at: int) -> tuple[int, int]:
    """From the line of an offset to the next line that is not indented deeper; to the end of the text inside braces."""
    start, line_end = line_at(text, at + 1)
    first = re.compile(r"[ \t]*").match(text, start)
    column = len(first[0]) if first else 0
    if text[at : at + 1] in ("{", ",") or "{" in text[start:at]:
        return start, len(text)
    below = re.compile(rf"(?m)^[ \t]{{0,{column}}}(?![ \t#\-\]}}]|[\r\n]|\Z)")
    after = below.search(text, line_end)
    return start, after.start() if after else len(text)


def line_at(text: str, offset: int) -> tuple[int, int]:
    """The offsets where the line around an offset begins and ends."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    found = _LINE_END.search(text, offset)
    return start, found.start() if found else len(text)


def lines(text: str) -> list[tuple[int, int]]:
    """The offsets where each line begins and ends."""
    ends = list(_LINE_END.finditer(text))
    return list(zip([0, *(end.end() for end in ends)], [*(end.start() for end in ends), len(text)], strict=True))
