"""Every violation of the JSON Schema of job files, as a Problem. Slow to load, because of its library."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from kedge.errors import Problem
from kedge.spec.message_text import MAX_PROBLEMS, quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.plugins import RUNTIME_PLUGINS
from kedge.spec.schema import item_schema, schema
from kedge.spec.schema_messages import Violation, message
from kedge.spec.shape import amount
from kedge.spec.suggest import name_list, nearest
from kedge.spec.yaml_escapes import LATER


def of_job(value: object, source: JobFileSource) -> Iterator[Problem]:
    """All violations of the schema for jobs, at most 200."""
    return _problems((v for v in _violations(_validator(), value, ()) if not _is_checked_later(v)), source)


def of_item(value: Mapping[str, Any], definition: str, path: Path, source: JobFileSource) -> Iterator[Problem]:
    """All violations of a definition of the schema in the prerequisite at `path`."""
    return _problems(_violations(_validator(definition), value, path), source)


def of_document(value: object, source: JobFileSource, wanted: Mapping[str, Any]) -> Iterator[Problem]:
    """All violations of a schema of its own, without references, in another kind of file."""
    return _problems(_violations(validator(wanted), value, ()), source)


def _violations(validator: Any, value: object, above: Path) -> Iterator[Violation]:
    found = (_violation(error, above) for error in islice(validator.iter_errors(value), MAX_PROBLEMS))
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
    """Whether the value is the name of a prerequisite's event, which item_checks reports."""
    is_event = broken.keyword == "enum" and broken.path[-1:] == ("event",) and isinstance(broken.value, str)
    return is_event and RUNTIME_PLUGINS not in broken.path


def _is_checked_later(broken: Violation) -> bool:
    """Whether the value is a prerequisite's string with a placeholder; it is checked once that is filled in."""
    depth = 2 if broken.path[1:2] == ("reference_prerequisites",) else 1 if broken.path[:1] == ("prerequisites",) else 0
    is_item = depth > 0 and len(broken.path) > depth + 1
    return is_item and isinstance(broken.value, str) and bool(LATER.search(broken.value))


def _violation(error: Any, above: Path) -> Violation:
    is_name = "propertyNames" in error.absolute_schema_path
    path = (*above, *error.absolute_path)
    return Violation(error.validator, error.validator_value, error.schema, path, error.instance, is_name)


def _pattern(validator: Any, pattern: str, instance: object, _: Any) -> Iterator[ValidationError]:
    # In Python `$` also matches before a final newline; in JSON Schema it does not.
    if isinstance(instance, str) and not re.fullmatch(pattern, instance):
        yield ValidationError(f"does not match {pattern}")


def _additional(validator: Any, rule: Any, instance: object, around: Any) -> Iterator[ValidationError]:
    # The library iterates over a set here, so its order differs between processes.
    known = around.get("properties", {})
    unknown = [key for key in instance if key not in known] if isinstance(instance, dict) else []
    if rule is False and unknown:
        yield ValidationError("unknown keys")
    elif isinstance(rule, dict) and isinstance(instance, dict):
        for key in unknown:
            yield from validator.descend(instance[key], rule, path=key)


def _bound(is_right: Callable[[float, float], bool]) -> Callable[..., Iterator[ValidationError]]:
    def check(validator: Any, limit: float, instance: object, around: Any) -> Iterator[ValidationError]:
        # The library compares only numbers, and by `instance < limit`, which is false for .nan.
        number = amount(instance, around)
        if number is not None and not is_right(number, limit):
            yield ValidationError(f"is not within {limit}")

    return check


@cache
def _validator(definition: str | None = None) -> Any:
    return validator(schema() if definition is None else item_schema(definition))


def validator(part: Any) -> Any:
    """The library's validator of a part of the schema, with our meaning of some keywords."""
    make: Any = extend
    keywords = {
        "pattern": _pattern,
        "additionalProperties": _additional,
        "minimum": _bound(operator.ge),
        "exclusiveMinimum": _bound(operator.gt),
        "maximum": _bound(operator.le),
    }
    return make(Draft202012Validator, keywords)(_inlined(part, schema()["$defs"]))


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:
    """The schema with every `$ref` expanded: looking them up takes a third of the validation time."""
    if isinstance(part, list):
        return [_inlined(below, definitions) for below in part]
    if not isinstance(part, dict):
        return part
    base = _inlined(definitions[part["$ref"].rpartition("/")[2]], definitions) if "$ref" in part else {}
    keywords = {key: _inlined(below, definitions) for key, below in part.items() if key not in ("$ref", "$defs")}
    return base | keywords


def _unknown_keys(broken: Violation, source: JobFileSource, mistyped: set[tuple[Path, str]]) -> Iterator[Problem]:
    known = broken.schema["properties"]
    for key in islice((key for key in broken.value if key not in known), MAX_PROBLEMS):
        guess = nearest(key, [name for name in known if name not in broken.value])
        hint = f"did you mean {quote(guess)}?" if guess else f"known here: {name_list(known, 20)}"
        if guess:
            mistyped.add((broken.path, guess))
        yield source.problem((*broken.path, key), f"unknown key {quote(key)}; {hint}", key=True)


def _missing_keys(broken: Violation, source: JobFileSource, mistyped: set[tuple[Path, str]]) -> Iterator[Problem]:
    for key in broken.limit:
        if key not in broken.value and (broken.path, key) not in mistyped:
            yield source.problem(broken.path, f"the key {quote(key)} is missing", key=True)
