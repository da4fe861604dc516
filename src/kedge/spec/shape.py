"""Whether a value has the shape that a JSON Schema describes: yes or no, without reasons, which take a library that is
slow to load. It covers the keywords that the schema of job files uses, and means by each what that library means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kedge.spec.units import seconds

Schema = Mapping[str, Any]


def has_shape(value: object, schema: Schema, definitions: Mapping[str, Schema]) -> bool:
    """Whether `value` fulfils `schema`, whose references are to `definitions`."""
    while "$ref" in schema:
        others = {keyword: limit for keyword, limit in schema.items() if keyword != "$ref"}
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **others}

    def fits(below: object, part: Schema) -> bool:
        return has_shape(below, part, definitions)

    return all(
        KEYWORDS[keyword](value, limit, schema, fits) for keyword, limit in schema.items() if keyword not in ANNOTATIONS
    )


ANNOTATIONS = frozenset(
    {"$schema", "$defs", "title", "description", "default", "deprecated", "examples", "patternErrorMessage"}
    | {"maximumErrorMessage", "unit"}
)
_Fits = Callable[[object, Schema], bool]


def _type(value: object, kinds: str | list[str], around: Schema, fits: _Fits) -> bool:
    return any(_TYPES[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _const(value: object, wanted: object, around: Schema, fits: _Fits) -> bool:
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _enum(value: object, allowed: list[object], around: Schema, fits: _Fits) -> bool:
    return any(_const(value, wanted, around, fits) for wanted in allowed)


def _pattern(value: object, pattern: str, around: Schema, fits: _Fits) -> bool:
    return not isinstance(value, str) or bool(re.fullmatch(pattern, value))


def _properties(value: object, parts: Mapping[str, Schema], around: Schema, fits: _Fits) -> bool:
    return not isinstance(value, dict) or all(fits(value[key], part) for key, part in parts.items() if key in value)


def _additional(value: object, part: Any, around: Schema, fits: _Fits) -> bool:
    if not isinstance(value, dict):
        return True
    others = [below for key, below in value.items() if key not in around.get("properties", ())]
    return not others if part is False else all(fits(below, part) for below in others)


def _names(value: object, part: Schema, around: Schema, fits: _Fits) -> bool:
    return not isinstance(value, dict) or all(fits(key, part) for key in value)


def _items(value: object, part: Schema, around: Schema, fits: _Fits) -> bool:
    return not isinstance(value, list) or all(fits(below, part) for below in value)


def _required(value: object, keys: list[str], around: Schema, fits: _Fits) -> bool:
    return not isinstance(value, dict) or all(key in value for key in keys)


def _all_of(value: object, parts: list[Schema], around: Schema, fits: _Fits) -> bool:
    return all(fits(value, part) for part in parts)


def _if(value: object, part: Schema, around: Schema, fits: _Fits) -> bool:
    return not fits(value, part) or fits(value, around["then"])


def _then(value: object, part: Schema, around: Schema, fits: _Fits) -> bool:
    return True  # `if` looks at it


def _size(kind: type[Any], is_right: Callable[[int, int], bool]) -> Callable[..., bool]:
    return lambda value, limit, around, fits: not isinstance(value, kind) or is_right(len(value), limit)


def _bound(is_right: Callable[[float, float], bool]) -> Callable[..., bool]:
    def check(value: object, limit: float, around: Schema, fits: _Fits) -> bool:
        number = amount(value, around)
        return number is None or is_right(number, limit)

    return check


def amount(value: Any, around: Schema) -> float | None:
    """The number to compare with the limits of a schema: the value itself or, of a duration, its seconds. None if it
    has no number."""
    if isinstance(value, str) and around.get("unit") == "seconds":
        try:
            return seconds(value)
        except ValueError:
            return None  # its pattern is violated
    return value if _is_number(value) else None


KEYWORDS: dict[str, Callable[[Any, Any, Schema, _Fits], bool]] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "required": _required,
    "allOf": _all_of,
    "if": _if,
    "then": _then,
    "minLength": _size(str, lambda size, limit: size >= limit),
    "maxLength": _size(str, lambda size, limit: size <= limit),
    "minItems": _size(list, lambda size, limit: size >= limit),
    "minProperties": _size(dict, lambda size, limit: size >= limit),
    "minimum": _bound(lambda number, limit: number >= limit),  # false for .nan, as in spec.violations
    "exclusiveMinimum": _bound(lambda number, limit: number > limit),
    "maximum": _bound(lambda number, limit: number <= limit),
}
