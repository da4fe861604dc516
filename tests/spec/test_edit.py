"""Values of a YAML text are changed where they stand; everything else stays as it is written."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.errors import InputError
from kedge.spec import yaml
from kedge.spec.edit import REWRITTEN, edited
from kedge.spec.model import Path

TEXT = """\
# a comment
name: job   # its name
number: 1e3
extras:
  # of kedge
  kedge:
    rules: [a.toml]
list:
  - {uri: ./x, more: 0o17}
  - uri: ../y   # outside
empty:
"""


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, {}),
        ({("name",): 'new: "x"'}, {1: 'name: "new: \\"x\\""   # its name'}),
        ({("list", 1, "uri"): "./y"}, {9: '  - uri: "./y"   # outside'}),
        ({("list", 0, "uri"): "./z"}, {8: '  - {uri: "./z", more: 0o17}'}),
        ({("extras", "kedge", "rules"): ["b", "c"]}, {6: '    rules: ["b", "c"]'}),
        ({("list", 0, "new"): 1}, {8: '  - {"new": 1, uri: ./x, more: 0o17}'}),
        ({("empty", "a"): 1}, {10: 'empty: {"a": 1}'}),
        ({("empty",): None}, {10: "empty: null"}),
    ],
)
def test_a_change_leaves_all_other_lines(changes: dict[Path, Any], lines: dict[int, str]) -> None:
    expected = [lines.get(number, line) for number, line in enumerate(TEXT.split("\n"))]
    assert edited(TEXT, changes).split("\n") == expected


def test_missing_mappings_are_added() -> None:
    changed = edited(TEXT, {("extras", "kedge", "env", "A"): "1", ("new", "x"): {"y": 1}, ("list", 1, "z"): True})
    assert changed.replace('"new": {"x": {"y": 1}}\n', "").replace('"env": {"A": "1"}\n    ', "").replace(
        '"z": true\n    ', ""
    ) == TEXT  # fmt: skip
    value = yaml.read(changed).value
    assert value["extras"]["kedge"] == {"env": {"A": "1"}, "rules": ["a.toml"]}
    assert (value["new"], value["list"][1]) == ({"x": {"y": 1}}, {"z": True, "uri": "../y"})


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffa: 1\r\nb: 2\r\n", '{"a": 1, "b": {"c": 2}}', "{}", "? a\n: 1\n", "a: &x 1\nb: *x\n",
        "b: {c: &m {d: 1}}",
        "- a: 1\n", "base: &b {a: 1}\nc:\n  <<: *b\n", "--- # start\na: |\n  block\n  text\nb: >-\n  folded\n",
        "a:\n- 1\n- 2\nb: []\n", "a: 'it''s'\n", '"a" : "b"\n', "a: # comment\n  x: 1 # more\n",
    ],
)  # fmt: skip
def test_any_text_gets_the_value(text: str) -> None:
    value = yaml.read_any(text, "f").value
    for path in [("a",), ("new",), ("c", "a"), ("b", "c", "x")] if isinstance(value, dict) else [(0, "a"), (0, "new")]:
        if (
            any(isinstance(value.get(step), str | int | list) for step in path[:-1])
            if isinstance(value, dict)
            else False
        ):
            continue
        for new in ("x: #", ["l"], {"k": None}, 2):
            found = yaml.read_any(edited(text, {path: new}), "f").value
            for step in path[:-1]:
                found = found[step]
            assert found[path[-1]] == new


def test_a_shared_value_is_changed_in_one_place_only() -> None:
    changed = edited("a: &x {v: 1e3, w: 0o17}\nb: *x\n", {("b", "v"): 2})
    assert changed.startswith(REWRITTEN)
    assert yaml.read(changed).value == {"a": {"v": 1000.0, "w": 15}, "b": {"v": 2, "w": 15}}
    assert "1e3" in changed
    assert "0o17" in changed


def test_what_cannot_be_set() -> None:
    with pytest.raises(KeyError):
        edited("a: [1]", {("a", 1): 2})
    with pytest.raises(InputError):
        edited("a: [", {("a",): 2})
