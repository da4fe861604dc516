"""Replaces characters that libyaml would misread with stand-ins that have no meaning in YAML.

They are the braces of `{{ name }}`, which is a placeholder and not a nested mapping; line breaks of YAML 1.1 that are
not line breaks in 1.2; and byte order marks after the first, which libyaml drops at the start of a line. Every
character keeps its offset, so that positions in messages remain correct.
"""

from __future__ import annotations

from itertools import chain

from kedge.late_patterns import late_pattern
from kedge.light.types import Mapping, NamedTuple

TOKEN = late_pattern(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}")
# Found in strings that get their values when prerequisites are resolved.
LATER = late_pattern(rf"{TOKEN.pattern}|<%\s*this\b")
_MISREAD = late_pattern("[\x85\u2028\u2029\ufeff]")


class Guarded(NamedTuple):
    """A text for libyaml, and the `str.translate` table that undoes the change in the values it returns."""

    text: str
    back: Mapping[int, str]


def guard(text: str) -> Guarded:
    """The text with stand-ins: private-use characters that the text does not contain."""
    if text.isascii() and "{{" not in text:
        return Guarded(text, {})  # without the patterns
    if not TOKEN.search(text) and not _MISREAD.search(text):
        return Guarded(text, {})
    private = chain(range(0xE000, 0xF8FF), range(0xF0000, 0xFFFFE))
    unused = (chr(code) for code in private if chr(code) not in text)
    stand_ins = {ord(character): next(unused) for character in "{}\x85\u2028\u2029\ufeff"}
    guarded = TOKEN.sub(lambda found: found[0].translate(stand_ins), text)
    guarded = _MISREAD.sub(lambda found: stand_ins[ord(found[0])], guarded)
    return Guarded(guarded, {ord(stand_in): chr(code) for code, stand_in in stand_ins.items()})
