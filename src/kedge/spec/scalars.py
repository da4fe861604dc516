"""The values of plain scalars: the core schema of YAML 1.2 (section 10.3.2), without the rules of YAML 1.1."""

from __future__ import annotations

from kedge.late_patterns import late_pattern

Scalar = str | int | float | bool | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = late_pattern(r"[-+]?[0-9]+")
_OCTAL = late_pattern(r"0o[0-7]+")
_HEX = late_pattern(r"0x[0-9a-fA-F]+")
_FLOAT = late_pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = late_pattern(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_FIRST = frozenset("+-.0123456789")
# characters; Python rejects decimal integers of more than 4300 digits, and such numbers would flood messages
MAX_NUMBER_LENGTH = 1000

TYPES: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}


def plain(text: str) -> Scalar:
    """The value of an unquoted scalar. ValueError: a number longer than 1000 characters."""
    if text in _WORDS:
        return _WORDS[text]
    return _number(text) if text[0] in _FIRST else text


def tagged(text: str, kind: str) -> Scalar:
    """The value of a scalar with the tag `!!kind`. ValueError: it is not of that type; KeyError: unknown tag."""
    if kind == "str":
        return text
    value = plain(text)
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ValueError(text)
    return float(value) if kind == "float" and value is not None else value


def _number(text: str) -> str | int | float:
    if text.isascii() and text.isdigit():
        return int(_checked(text))  # without patterns, which take long to load and compile
    for pattern, base in (_INT, 10), (_OCTAL, 8), (_HEX, 16):
        if pattern.fullmatch(text):
            return int(_checked(text), base) if base == 10 else int(_checked(text)[2:], base)
    if _FLOAT.fullmatch(text):
        return float(_checked(text))
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def _checked(text: str) -> str:
    if len(text) > MAX_NUMBER_LENGTH:
        raise ValueError(text)
    return text
