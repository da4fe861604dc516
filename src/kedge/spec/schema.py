"""The shape of a job file: one JSON Schema, and every violation of it as a Problem of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from kedge.errors import Problem
from kedge.spec.message_text import MOST_PROBLEMS, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.plugins import RUNTIME_PLUGINS
from kedge.spec.schema_messages import Violation, message
from kedge.spec.suggest import name_list, nearest
from kedge.spec.yaml_escapes import LATER

_SHAPES = {"dockerimage": "dockerImage", "data": "dataPrerequisite"}


@cache
def schema() -> dict[str, Any]:
    """The schema of job files, JSON Schema draft 2020-12."""
    text = resources.files(__package__).joinpath("job.schema.json").read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)
    return value


def check(value: object, source: JobFileSource) -> Iterator[Problem]:
    """Every way in which `value` has not the shape of a job, at most 200."""
    return _problems((v for v in _violations(_validator(), value, ()) if not _comes_later(v)), source)


def check_item(value: Mapping[str, Any], path: Path, source: JobFileSource) -> Iterator[Problem]:
    """The same for one prerequisite that has all its values; it stands at `path`, and its type may be missing."""
    shape = _SHAPES.get(str(value.get("type", "data")), "uriPrerequisite")
    return _problems(_violations(_validator(shape), value, path), source)


def _violations(validator: Any, value: object, above: Path) -> Iterator[Violation]:
    found = (_violation(error, above) for error in islice(validator.iter_errors(value), MOST_PROBLEMS))
    return (violation for violation in found if not _is_an_event(violation))


def _problems(found: Iterable[Violation], source: JobFileSource) -> Iterator[Problem]:
    violations = list(found)
    mistyped: set[tuple[Path, str]] = set()
    for broken in violations:
        if broken.keyword == "additionalProperties":
            yield from _unknown_keys(broken, source, mistyped)
    for broken in violations:
        if broken.keyword == "required":
            yield from _missing_keys(broken, source, mistyped)
        elif broken.is_name:
            yield source.problem((*broken.path, broken.value), f"the name {message(broken)}", key=True)
        elif broken.keyword != "additionalProperties":
            yield source.problem(broken.path, message(broken))


def _is_an_event(broken: Violation) -> bool:
    """The name of an event of a prerequisite, for which there is a message of its own (item_checks)."""
    is_event = broken.keyword == "enum" and broken.path[-1:] == ("event",) and isinstance(broken.value, str)
    return is_event and RUNTIME_PLUGINS not in broken.path


def _comes_later(broken: Violation) -> bool:
    """A text of a prerequisite with a place for a value, which is checked when the value is there."""
    depth = 2 if broken.path[1:2] == ("reference_prerequisites",) else 1 if broken.path[:1] == ("prerequisites",) else 0
    is_item = depth > 0 and len(broken.path) > depth + 1
    return is_item and isinstance(broken.value, str) and bool(LATER.search(broken.value))


def _violation(error: Any, above: Path) -> Violation:
    is_name = "propertyNames" in error.absolute_schema_path
    path = (*above, *error.absolute_path)
    return Violation(error.validator, error.validator_value, error.schema, path, error.instance, is_name)


def _pattern(validator: Any, pattern: str, instance: object, _: Any) -> Iterator[ValidationError]:
    # The `$` of Python's expressions also matches before a last newline, that of JSON Schema does not.
    if isinstance(instance, str) and not re.fullmatch(pattern, instance):
        yield ValidationError(f"does not match {pattern}")


def _additional(validator: Any, rule: Any, instance: object, around: Any) -> Iterator[ValidationError]:
    # The library goes through a set here, in another order in every process.
    known = around.get("properties", {})
    unknown = [key for key in instance if key not in known] if isinstance(instance, dict) else []
    if rule is False and unknown:
        yield ValidationError("unknown keys")
    elif isinstance(rule, dict) and isinstance(instance, dict):
        for key in unknown:
            yield from validator.descend(instance[key], rule, path=key)


def _minimum(validator: Any, limit: float, instance: object, _: Any) -> Iterator[ValidationError]:
    # Not `instance < limit`, which is false for .nan.
    if validator.is_type(instance, "number") and not instance >= limit:  # type: ignore[operator]
        yield ValidationError(f"is less than {limit}")


@cache
def _validator(definition: str | None = None) -> Any:
    make: Any = extend
    keywords = {"pattern": _pattern, "additionalProperties": _additional, "minimum": _minimum}
    definitions = schema()["$defs"]
    part = schema()
    if definition is not None:
        part = {**definitions[definition], "required": ["name", *definitions[definition].get("required", ())]}
    return make(Draft202012Validator, keywords)(_inlined(part, definitions))


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:
    """The schema with every `$ref` replaced by what it refers to: looking them up takes a third of the time."""
    if isinstance(part, list):
        return [_inlined(below, definitions) for below in part]
    if not isinstance(part, dict):
        return part
    base = _inlined(definitions[part["$ref"].rpartition("/")[2]], definitions) if "$ref" in part else {}
    own = {key: _inlined(below, definitions) for key, below in part.items() if key not in ("$ref", "$defs")}
    return base | own


def _unknown_keys(broken: Violation, source: JobFileSource, mistyped: set[tuple[Path, str]]) -> Iterator[Problem]:
    known = broken.schema["properties"]
    for key in islice((key for key in broken.value if key not in known), MOST_PROBLEMS):
        guess = nearest(key, [name for name in known if name not in broken.value])
        hint = f"did you mean {quote(guess)}?" if guess else f"known here: {name_list(known, 20)}"
        if guess:
            mistyped.add((broken.path, guess))
        yield source.problem((*broken.path, key), f"unknown key {quote(key)}; {hint}", key=True)


def _missing_keys(broken: Violation, source: JobFileSource, mistyped: set[tuple[Path, str]]) -> Iterator[Problem]:
    for key in broken.limit:
        if key not in broken.value and (broken.path, key) not in mistyped:
            yield source.problem(broken.path, f"the key {quote(key)} is missing", key=True)
