"""RE2 with the options used here: no messages, compiled at first use, over bytes (as Latin-1) or over characters."""

from __future__ import annotations

from kedge.light import re2
from kedge.light.functools import cache
from kedge.light.types import Any

BYTES, UTF8 = re2.Options.Encoding.LATIN1, re2.Options.Encoding.UTF8


@cache
def regex(pattern: bytes) -> Any:
    """A compiled pattern over bytes. re2.error if RE2 refuses it."""
    return re2.compile(pattern, options())


@cache
def over_characters(pattern: str) -> Any:
    """A compiled pattern over UTF-8 (`characters.valid`). re2.error if RE2 refuses it."""
    return re2.compile(pattern.encode(), options(encoding=UTF8))


def find(literal: bytes, text: bytes | bytearray, start: int = 0, end: int | None = None) -> int:
    """`text.find(literal, start, end)`, but with RE2's vector instructions, which take a tenth to a fortieth of the
    time."""
    found = regex(re2.escape(literal)).search(text, start, end)
    return found.start() if found else -1


def options(memory: int = 8 << 20, encoding: Any = BYTES) -> re2.Options:
    """RE2's options; `memory` in bytes limits the program and the automaton."""
    chosen = re2.Options()
    chosen.encoding = encoding
    chosen.log_errors = False
    chosen.max_mem = memory
    return chosen
