"""Changes values in a YAML text and keeps the rest of it as it is written, comments too."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from typing import Any

from kedge.errors import InputError
from kedge.spec import yaml
from kedge.spec.model import Path
from kedge.spec.nodes import Node

REWRITTEN = "# rewritten, because the original text could not be changed in place\n"


def edited(text: str, changes: Mapping[Path, Any], file: str = "job.yaml") -> str:
    """The text with the values at these paths set. Mappings that a path needs are added; lists are not.

    If the text cannot be changed in place, for example because aliases share a value, it is rewritten without comments.
    InputError: it is not valid YAML; KeyError: there is no list, or no such item of it.
    """
    if not changes:
        return text
    document = yaml.read_any(text, file)
    wanted = copy.deepcopy(document.value)
    for path, value in changes.items():
        wanted = _put(wanted, path, value)
    try:
        result = text
        for path, value in changes.items():
            result = _set(result, path, value, file)
        intact = yaml.read_any(result, file).value == wanted
    except InputError:
        intact = False
    return result if intact else REWRITTEN + _dumped(wanted, document.root)


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, list):
        if not isinstance(path[0], int) or path[0] >= len(value):
            raise KeyError(path)
        value[path[0]] = _put(value[path[0]], path[1:], new)
        return value
    # A copy, because aliases share values.
    below = dict(value) if isinstance(value, dict) else {}
    below[path[0]] = _put(copy.deepcopy(below.get(path[0])), path[1:], new)
    return below


def _set(text: str, path: Path, value: Any, file: str) -> str:
    """One change in place; the caller checks the result."""
    node, depth = yaml.read_any(text, file).root, 0
    while depth < len(path) and path[depth] in node.items:
        node = node.items[path[depth]]
        depth += 1
    offset = len(text) - len(text.removeprefix("\ufeff"))
    for step in reversed(path[depth + 1 :]):
        value = {step: value}
    written = json.dumps(value, ensure_ascii=False)
    start, end, new = _edit(node, None if depth == len(path) else str(path[depth]), written, text[offset:])
    return text[: offset + start] + new + text[offset + end :]


def _edit(node: Node, key: str | None, written: str, text: str) -> tuple[int, int, str]:
    """The part of the text to replace, and its new content: the node itself, or a new key of the mapping."""
    anchor = f"&{node.anchor} " if node.anchor else ""
    if key is None:
        return node.start, node.end, f"{_space(node, text)}{anchor}{written}"
    pair = f"{json.dumps(key, ensure_ascii=False)}: {written}"
    if not isinstance(node.value, dict):  # an empty value
        return node.start, node.end, f"{_space(node, text)}{anchor}{{{pair}}}"
    if text.startswith("{", node.start):
        return node.start + 1, node.start + 1, f"{pair}, " if node.keys else pair
    own = [each for each in node.keys.values() if node.start <= each.start < node.end]
    first = min(own, key=lambda each: each.start, default=node)
    return first.start, first.start, f"{pair}\n{' ' * first.column}"


def _space(node: Node, text: str) -> str:
    """What separates the value from its key if it was empty."""
    return " " if node.start == node.end and text[node.start - 1 : node.start] == ":" else ""


def _dumped(value: Any, node: Node | None) -> str:
    """The value as JSON-style YAML, with unchanged numbers as they were written."""
    if isinstance(value, dict):
        pairs = (
            f"{json.dumps(str(key), ensure_ascii=False)}: {_dumped(value[key], _below(node, key))}" for key in value
        )
        return "{" + ",\n".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(_dumped(each, _below(node, number)) for number, each in enumerate(value)) + "]"
    if node is not None and node.text and not isinstance(value, str) and _is_same(node.value, value):
        return node.text
    return json.dumps(value, ensure_ascii=False)


def _below(node: Node | None, step: str | int) -> Node | None:
    return node.items.get(step) if node is not None else None


def _is_same(old: Any, new: Any) -> bool:
    both_nan = isinstance(old, float) and isinstance(new, float) and math.isnan(old) and math.isnan(new)
    return both_nan or (type(old) is type(new) and old == new)
