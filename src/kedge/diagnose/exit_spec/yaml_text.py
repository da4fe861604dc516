"""Writing nested mappings of texts, numbers and booleans as YAML that every parser reads the same way.

Texts of several lines are written as block literals; texts with characters that a literal cannot contain are quoted.
"""

from __future__ import annotations

from kedge.light import json
from kedge.light.types import Any, Mapping

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLAIN = frozenset(_LETTERS + "0123456789_./()'=,;+@^~- ")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}  # texts that are something else in YAML 1.1
# Characters that a literal cannot contain: controls except tab and newline, line breaks of YAML 1.1, noncharacters.
_UNPRINTABLE = (range(9), range(0xB, 0x20), range(0x7F, 0xA0), range(0xD800, 0xE000))
_SPECIAL = frozenset(chr(code) for codes in _UNPRINTABLE for code in codes) | set("\u2028\u2029\ufeff\ufffe\uffff")


def dump(data: Mapping[str, Any], indent: int = 0) -> str:
    """The text of a mapping with its keys in order, ending with a newline. Keys must be plain words."""
    return "".join(f"{' ' * indent}{key}:{_value(value, indent + 2)}" for key, value in data.items())


def _value(value: Any, indent: int) -> str:
    if isinstance(value, Mapping):
        return f"\n{dump(value, indent)}" if value else " {}\n"
    if not isinstance(value, str):
        return f" {json.dumps(value)}\n"
    if "\n" in value and value.strip() and _SPECIAL.isdisjoint(value):
        return _literal(value, " " * indent)
    return f" {value if _is_plain(value) else _quoted(value)}\n"


def _is_plain(text: str) -> bool:
    """Whether a text needs no quotes."""
    if not text or text[0] not in _LETTERS or text[-1] == " ":
        return False
    return _PLAIN.issuperset(text) and text.lower() not in _WORDS


def _literal(text: str, margin: str) -> str:
    hint = "2" if text[0] in " \t\n" else ""  # the first line does not show the indentation
    end = "-" if text[-1] != "\n" else "+" if text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    return f" |{hint}{end}\n" + "".join(f"{margin}{line}\n" if line else "\n" for line in lines)


def _quoted(text: str) -> str:
    return "".join(f"\\u{ord(one):04x}" if one in _SPECIAL else one for one in json.quoted(text))
