"""The JSON Schema of job files, and the check of values against it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from kedge.errors import Problem
from kedge.spec.model import JobFileSource, Path
from kedge.spec.shape import has_shape

_SHAPES = {"dockerimage": "dockerImage", "data": "dataPrerequisite"}


@cache
def schema() -> dict[str, Any]:
    """The schema of job files, JSON Schema draft 2020-12."""
    text = FilePath(__file__).with_name("job.schema.json").read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)
    return value


@cache
def item_schema(definition: str) -> dict[str, Any]:
    """The part of the schema for a prerequisite, whose name is required then."""
    found = schema()["$defs"][definition]
    return {**found, "required": ["name", *found.get("required", ())]}


def check(value: object, source: JobFileSource) -> Iterable[Problem]:
    """All violations of the schema for jobs, at most 200."""
    if _has_shape(value, schema()):
        return ()
    found: Iterable[Problem] = _violations().of_job(value, source)
    return found


def check_item(value: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterable[Problem]:
    """All violations in the prerequisite at `path`, with its values filled in; its type may be missing."""
    definition = _SHAPES.get(str(value.get("type", "data")), "uriPrerequisite")
    if _has_shape(value, item_schema(definition)):
        return ()
    found: Iterable[Problem] = _violations().of_item(value, definition, path, source)
    return found


def check_document(value: object, source: JobFileSource, wanted: Mapping[str, Any]) -> Iterable[Problem]:
    """All violations of a schema of its own, without references, in a file that is no job; at most 200."""
    if has_shape(value, wanted, {}):
        return ()
    found: Iterable[Problem] = _violations().of_document(value, source, wanted)
    return found


def _has_shape(value: object, part: dict[str, Any]) -> bool:
    return has_shape(value, part, schema()["$defs"])


def _violations() -> Any:
    """Loaded only for a value that has violations: the library behind it takes a quarter of a `kedge validate`."""
    return importlib.import_module("kedge.spec.violations")
