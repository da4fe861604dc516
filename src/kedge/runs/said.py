"""What supervisors have written into folders in which their tasks may have written, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from kedge.contract import Report


def report(data: Mapping[str, Any]) -> Report:
    """A report from JSON with all its keys, and maybe others. ValueError if one is missing or of a wrong type.

    What UTF-8 cannot express is replaced in its texts.
    """
    try:
        known = {name: data[name] for name in Report._fields if name in data}
        made = Report(**json.loads(json.dumps(known, ensure_ascii=False).encode(errors="replace")))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not fits(made, Report):
        raise ValueError("something in it is of a wrong type")
    if not all(datetime.fromisoformat(time).tzinfo for time in (made.started, made.ended)):
        raise ValueError("a time without its zone")
    return made


def fits(value: object, wanted: Any) -> bool:
    """Whether a value from JSON is of a type: a plain one, a named tuple, or a union, a list or a mapping of types."""
    inner = get_args(wanted)
    if wanted is Any:
        return True
    if get_origin(wanted) is UnionType:
        return any(fits(value, one) for one in inner)
    if get_origin(wanted) is dict:
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if get_origin(wanted) in (list, tuple):
        return isinstance(value, list | tuple) and all(fits(one, inner[0]) for one in value)
    if hasattr(wanted, "_fields"):
        hints = get_type_hints(wanted)
        return isinstance(value, wanted) and all(fits(getattr(value, name), kind) for name, kind in hints.items())
    return type(value) is wanted or (wanted is float and type(value) is int)
