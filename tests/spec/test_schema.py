from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from kedge.spec.schema import schema
from kedge.spec.schema_messages import FORMATTERS

SILENT = {"properties", "items", "$ref", "allOf", "if", "then", "propertyNames", "required", "additionalProperties"}
ANNOTATIONS = {
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "patternErrorMessage",
    "maximumErrorMessage",
    "unit",
    "$schema",
    "$defs",
}


def schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Every subschema of a schema."""
    yield part
    below = list(part.get("properties", {}).values()) + list(part.get("$defs", {}).values()) + part.get("allOf", [])
    below += [part[key] for key in ("items", "if", "then", "propertyNames") if key in part]
    if isinstance(part.get("additionalProperties"), dict):
        below.append(part["additionalProperties"])
    for schema_below in below:
        yield from schemas(schema_below)


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(schema())
    assert json.loads(json.dumps(schema())) == schema()


def test_every_rule_has_a_message() -> None:
    used = {key for part in schemas(schema()) for key in part}
    assert used - SILENT - ANNOTATIONS <= set(FORMATTERS)


def test_every_key_has_a_description_for_editors() -> None:
    definitions = schema()["$defs"]
    for part in schemas(schema()):
        for key, value in part.get("properties", {}).items():
            target = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
            shown = value.keys() | target.keys()
            condition = shown <= {"const", "enum", "$ref", "properties", "type", "items"}
            assert shown & {"title", "description"} or condition, key


def test_defaults_and_examples_are_valid() -> None:
    definitions = {"$defs": schema()["$defs"]}
    for part in schemas(schema()):
        for value in [*([part["default"]] if "default" in part else []), *part.get("examples", [])]:
            errors = [error.message for error in Draft202012Validator(part | definitions).iter_errors(value)]
            assert errors == []


def test_all_references_resolve_and_all_definitions_are_used() -> None:
    used = {part["$ref"] for part in schemas(schema()) if "$ref" in part}
    assert used == {f"#/$defs/{name}" for name in schema()["$defs"]}


def test_problems_come_in_the_same_order_in_every_process() -> None:
    code = """
from kedge.errors import InputError
from kedge.spec.parse import parse
roles = "".join(f"  w{i}: {{foo{i}: 1}}\\n" for i in range(300))
try:
    parse("protocolVersion: 2\\nname: j\\ntype: job\\ntaskRoles:\\n" + roles)
except InputError as error:
    print(error)
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(outputs) == 1
    assert "unknown key 'foo0'" in outputs.pop()
