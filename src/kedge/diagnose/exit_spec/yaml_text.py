"""Writing nested mappings of texts, numbers and booleans as YAML that every parser reads the same way.

Texts of several lines are written as block literals; texts with characters that a literal cannot contain are quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./()'=,;+@^~-]*(?: +[A-Za-z0-9_./()'=,;+@^~-]+)*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}  # texts that are something else in YAML 1.1
# Characters that a literal cannot contain: controls except tab and newline, line breaks of YAML 1.1, noncharacters.
_UNPRINTABLE = "[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
_SPECIAL = re.compile(_UNPRINTABLE)


def dump(data: Mapping[str, Any], indent: int = 0) -> str:
    """The text of a mapping with its keys in order, ending with a newline. Keys must be plain words."""
    return "".join(f"{' ' * indent}{key}:{_value(value, indent + 2)}" for key, value in data.items())


def _value(value: Any, indent: int) -> str:
    if isinstance(value, Mapping):
        return f"\n{dump(value, indent)}" if value else " {}\n"
    if not isinstance(value, str):
        return f" {json.dumps(value)}\n"
    if "\n" in value and value.strip() and not _SPECIAL.search(value):
        return _literal(value, " " * indent)
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return f" {value if plain else _quoted(value)}\n"


def _literal(text: str, margin: str) -> str:
    hint = "2" if text[0] in " \t\n" else ""  # the first line does not show the indentation
    end = "-" if text[-1] != "\n" else "+" if text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    return f" |{hint}{end}\n" + "".join(f"{margin}{line}\n" if line else "\n" for line in lines)


def _quoted(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
