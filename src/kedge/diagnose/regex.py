"""RE2 as everything here uses it: over bytes, read as Latin-1, quiet, compiled when first needed."""

from __future__ import annotations

from functools import cache
from typing import Any

import re2


@cache
def regex(pattern: bytes) -> Any:
    """A compiled pattern. re2.error if RE2 refuses it."""
    return re2.compile(pattern, options())


def options(memory: int = 8 << 20) -> re2.Options:
    """RE2's options; `memory` in bytes bounds program and automaton."""
    chosen = re2.Options()
    chosen.encoding = re2.Options.Encoding.LATIN1
    chosen.log_errors = False
    chosen.max_mem = memory
    return chosen
