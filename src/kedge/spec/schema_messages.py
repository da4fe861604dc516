"""Messages for violations of the schema: what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kedge.spec.message_text import quote
from kedge.spec.model import Path
from kedge.spec.references import WHERE_THEY_WORK
from kedge.spec.suggest import name_list, nearest
from kedge.spec.units import duration_meant, number_meant

_TYPES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "empty",
}


class Violation(NamedTuple):
    """A value that violates one rule: the rule's keyword and setting, and the schema around it."""

    keyword: str
    limit: Any
    schema: dict[str, Any]
    path: Path
    value: Any
    is_name: bool  # `value` is a key of the mapping at `path`


def message(violation: Violation) -> str:
    """One line about one violation, without its place; values of secrets are not shown."""
    return FORMATTERS[violation.keyword](violation)


def describe(value: object) -> str:
    """A value for a message: scalars as in YAML, lists and mappings by kind."""
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value!r:.60}"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else f"the date {value}"  # which only TOML has


def _type(broken: Violation) -> str:
    allowed = broken.limit if isinstance(broken.limit, list) else [broken.limit]
    if broken.schema.get("unit") == "seconds":
        return f"must be a number of seconds, or a duration such as 30m, not {describe(broken.value)}"
    wanted = " or ".join(_TYPES[kind] for kind in allowed if kind != "null" or len(allowed) == 1)
    if broken.path == ("secrets",):
        return f"must be {wanted}"
    return f"must be {wanted}, not {describe(broken.value)}{_hint(broken, allowed)}"


def _hint(broken: Violation, allowed: list[str]) -> str:
    value = broken.value
    if isinstance(value, str) and "<%" in value:
        return f"; write the value itself; {WHERE_THEY_WORK}"
    if "integer" in allowed or "number" in allowed:
        return number_meant(broken.path, value, whole="number" not in allowed)
    if broken.path[-1:] == ("ports",):
        return "; write how many by label, as in 'ports: {http: 1}'"
    if "string" not in allowed:
        return ""
    if isinstance(value, dict) and "object" not in allowed:
        return "; put text that holds ': ' in quotes"
    return "; put it in quotes" if isinstance(value, int | float) else ""


def _one_of(broken: Violation) -> str:
    allowed = broken.limit
    names = [name for name in allowed if isinstance(name, str)]
    guess = nearest(broken.value, names) if isinstance(broken.value, str) else None
    if guess:
        return f"{describe(broken.value)} is not known here; did you mean {quote(guess)}?"
    choices = name_list(names) if len(names) == len(allowed) else " or ".join(map(str, allowed[:1]))
    return f"must be {'one of ' if len(names) > 1 else ''}{choices}, not {describe(broken.value)}"


def _const(broken: Violation) -> str:
    return f"must be {describe(broken.limit)}, not {describe(broken.value)}"


def _pattern(broken: Violation) -> str:
    rule = broken.schema.get("patternErrorMessage", f"must match {broken.limit}")
    if broken.path == ("secrets",):
        return str(rule)
    guess = duration_meant(str(broken.value)) if broken.schema.get("unit") == "seconds" else None
    return f"{describe(broken.value)} {rule}" + (f"; did you mean {quote(guess)}?" if guess else "")


def _bound(words: str) -> Callable[[Violation], str]:
    return lambda broken: f"must be {words} {broken.limit}{_unit(broken)}, not {broken.value!r:.60}"


def _unit(broken: Violation) -> str:
    return " " + broken.schema["unit"] if "unit" in broken.schema else ""


def _most(broken: Violation) -> str:
    if rule := broken.schema.get("maximumErrorMessage"):
        return f"{broken.value!r:.60} {str(rule).replace('<label>', str(broken.path[-1]))}"
    return _bound("at most")(broken)


def _empty(broken: Violation) -> str:
    return "must not be empty"


def _too_long(broken: Violation) -> str:
    return f"must have at most {broken.limit} characters, not {len(broken.value)}"


FORMATTERS: dict[str, Callable[[Violation], str]] = {
    "type": _type,
    "enum": _one_of,
    "const": _const,
    "pattern": _pattern,
    "minimum": _bound("at least"),
    "exclusiveMinimum": _bound("more than"),
    "maximum": _most,
    "minItems": _empty,
    "minProperties": _empty,
    "minLength": _empty,
    "maxLength": _too_long,
}
