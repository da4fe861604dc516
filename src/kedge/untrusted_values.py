"""Values from JSON that came from an untrusted file: they are accepted only if they have the expected types."""

from __future__ import annotations

import collections.abc
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")


def named(kind: type[T], data: Any) -> T:
    """A named tuple from a JSON object; ignores other keys. ValueError if a value without a default is missing. Does
    not check the types of the values, see `fits`."""
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    try:
        return kind(**{name: data[name] for name in kind._fields if name in data})  # type: ignore[attr-defined]
    except TypeError as error:
        raise ValueError(str(error)) from error


def fits(value: object, wanted: Any) -> bool:
    """Whether a value from JSON has the type `wanted`: a plain type, a named tuple, a typed dictionary, or a union,
    list or mapping of types."""
    if wanted in _PLAIN:
        return type(value) is wanted
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted in (Any, object):
        return True
    if isinstance(wanted, _UNION) or origin is Union:
        return any(fits(value, one) for one in inner)
    if origin in (dict, collections.abc.Mapping):  # a default value may be another mapping
        return isinstance(value, origin) and all(fits(one, inner[1]) for one in value.values())
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(fits(one, inner[0]) for one in value)
    if is_typeddict(wanted):
        return isinstance(value, dict) and wanted.__required_keys__ <= value.keys() and _fit(value, wanted)
    if hasattr(wanted, "_fields"):
        return isinstance(value, wanted) and _fit(value._asdict(), wanted)
    return type(value) is wanted or (wanted is float and type(value) is int)


_UNION = type(int | str)
_PLAIN = (str, int, bool)


def _fit(values: dict[str, Any], wanted: Any) -> bool:
    """Whether the values fit the types that `wanted` declares for them."""
    return all(fits(values[name], kind) for name, kind in get_type_hints(wanted).items() if name in values)
