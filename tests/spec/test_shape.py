"""The quick answer is that of the library, for every rule of the schema and values that fulfil or violate it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kedge.spec import yaml
from kedge.spec.schema import item_schema, schema
from kedge.spec.shape import ANNOTATIONS, KEYWORDS, has_shape
from kedge.spec.violations import validator

from .test_schema import schemas

DEFINITIONS = schema()["$defs"]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
PARTS = [*schemas(schema()), *(item_schema(name) for name in ("dockerImage", "uriPrerequisite", "dataPrerequisite"))]
OF_EVERY_KIND = [
    None, True, False, 0, 1, -1, 2, 1.0, 2.0, 1.5, -0.5, math.nan, math.inf, 10**20, 2147483647, 2147483648.0, 1024,
    "", "x", "x\n", "2", "a b", "1a", "30m", "0s", "2d", "ä", "x" * 255, "x" * 256, "******", [], [""], ["x", 1], [[]],
    {}, {"x": 1}, {"x": "x"}, {"1": None}, {"name": ""}, [{"name": "x"}], [{}],
]  # fmt: skip


def of_part(part: Any) -> Iterator[Any]:
    """The values that a part names, and mappings of its keys with other values of all kinds."""
    while "$ref" in part:
        part = {**DEFINITIONS[part["$ref"].rpartition("/")[2]], **{k: v for k, v in part.items() if k != "$ref"}}
    yield from [*part.get("enum", ()), *part.get("examples", ()), *([part["const"]] if "const" in part else [])]
    yield from ([value] for value in candidates(part.get("items", {})))
    if isinstance(part.get("additionalProperties"), dict):
        yield from ({"x": value} for value in candidates(part["additionalProperties"]))
    keys = part.get("properties", {})
    right = {
        key: value for key in keys for value in islice(filter(validator(keys[key]).is_valid, candidates(keys[key])), 1)
    }
    required = {key: right[key] for key in part.get("required", ()) if key in right}
    yield from [required, right, required | {"unknown": 1}]
    for key in keys:
        yield {other: value for other, value in right.items() if other != key}
        yield from (required | {key: value} for value in OF_EVERY_KIND)


def candidates(part: Any) -> list[Any]:
    return [*OF_EVERY_KIND, *of_part(part)] if part else OF_EVERY_KIND


def test_it_covers_every_keyword_of_the_schema() -> None:
    assert {keyword for part in PARTS for keyword in part} - {"$ref"} == KEYWORDS.keys() | ANNOTATIONS


@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part.get("title") or part.get("description"))[:40])
def test_it_answers_as_the_library_does(part: Any) -> None:
    library = validator(part)
    wrong = [v for v in candidates(part) if has_shape(v, part, DEFINITIONS) != library.is_valid(v)]
    assert not wrong


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_the_shape(path: Path) -> None:
    assert has_shape(yaml.read(path.read_text()).value, schema(), DEFINITIONS)
