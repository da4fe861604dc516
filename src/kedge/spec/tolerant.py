"""Reads values of unknown shape: anything of an unexpected type counts as empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.spec.model import Path


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def entries(value: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings in a list, with their indexes."""
    return ((index, item) for index, item in enumerate(items(value)) if isinstance(item, dict))


def strings(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Every string in a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list | dict):
        for step, below in enumerate(value) if isinstance(value, list) else value.items():
            yield from strings(below, (*path, step))
