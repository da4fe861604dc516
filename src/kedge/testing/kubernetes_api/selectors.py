"""Which objects a labelSelector and a fieldSelector choose."""

from __future__ import annotations

import re
from collections.abc import Callable

from kedge.testing.kubernetes_api.refusals import FakeRefusal, Json

Match = Callable[[Json], bool]
_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_EQUAL = re.compile(r"^([^=!]+?)\s*(==|=|!=)\s*(.*)$")
_COMMA = re.compile(r",(?![^(]*\))")  # outside of parentheses


def matcher(labels: str, fields: str) -> Match:
    """A test of objects. FakeRefusal 400: a selector that cannot be read."""
    tests = [_label_test(part.strip()) for part in _COMMA.split(labels) if part.strip()]
    tests += [_field_test(part.strip()) for part in fields.split(",") if part.strip()]
    return lambda obj: all(test(obj) for test in tests)


def _labels(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _label_test(text: str) -> Match:
    if found := _SET.match(text):
        key, how, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        return lambda obj: (_labels(obj).get(key) in values) == (how == "in")
    if found := _EQUAL.match(text):
        key, how, value = found[1], found[2], found[3]
        return lambda obj: (_labels(obj).get(key) == value) == (how != "!=")
    if text.startswith("!"):
        return lambda obj: text[1:] not in _labels(obj)
    if " " in text:
        raise FakeRefusal(400, f"unable to parse requirement: {text}")
    return lambda obj: text in _labels(obj)


def _field_test(text: str) -> Match:
    found = _EQUAL.match(text)
    if not found:
        raise FakeRefusal(400, f"invalid field selector: {text}")
    path, how, value = found[1].split("."), found[2], found[3]
    return lambda obj: (_field(obj, path) == value) == (how != "!=")


def _field(obj: Json, path: list[str]) -> str:
    value: object = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)
