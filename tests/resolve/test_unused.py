"""Values and items that a job does not use, and cycles among them."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.errors import WARNING

from .conftest import Folder

IMAGE = {"name": "other", "type": "dockerimage", "uri": "u"}


def item(name: str, *require: Any, **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": "script", "require": list(require), **keys}


def warnings(folder: Folder, listed: list[str], **keys: Any) -> list[str]:
    found = folder.resolve(listed, **keys).warnings
    assert all(warning.severity == WARNING for warning in found)
    return [f"{warning.where}: {warning.message}" for warning in found]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"parameters": {"a": 1}},
            ["parameters.a: this parameter is not used; refer to it as <% $parameters.a %>, or remove it"],
        ),
        (
            {"parameters": {"one two": 1}},
            ["parameters.'one two': this parameter is not used, and no reference can contain its name"],
        ),
        ({"secrets": {"a": 1}}, ["secrets.a: this secret is not used; refer to it as <% $secrets.a %>, or remove it"]),
        ({"prerequisites": [IMAGE]}, ["prerequisites[1]: no task role uses 'other'"]),
        ({"prerequisites": [item("a", "b"), item("b")]}, ["prerequisites[1]: no", "prerequisites[2]: no task role"]),
        (
            {"extras": {"reference_prerequisites": [{"name": "r"}]}},
            ["extras.reference_prerequisites[0]: no task role uses 'r'"],
        ),
    ],
    ids=str,
)
def test_unused_values_and_items_are_reported(folder: Folder, keys: dict[str, Any], expected: list[str]) -> None:
    found = warnings(folder, [], **keys)
    assert len(found) == len(expected)
    assert all(message.startswith(beginning) for message, beginning in zip(found, expected, strict=True))


def test_every_kind_of_use_counts(folder: Folder) -> None:
    folder.write("x.yaml", {"name": "x", "type": "script", "callbacks": [
        {"event": "taskStarts", "commands": ["a <% $parameters.far %> <% $secrets.far %>"]}]})  # fmt: skip
    idle = {"name": "idle", "taskRoles": {"w": {"preCommands": ["<% $parameters.idle %>"]}}}
    found = warnings(
        folder,
        ["top", "./x.yaml"],
        prerequisites=[
            item("top", "below", {"name": "deep"}),
            item("below", text="<% $parameters.text[0].b %>"),
            item("deep"),
        ],
        parameters={"far": 1, "idle": 2, "text": [{"b": 1}]},
        secrets={"far": 3},
        deployments=[idle],
    )
    assert found == []


def test_a_cycle_that_no_role_needs_is_an_error_that_names_it(folder: Folder) -> None:
    problem = folder.problem([], prerequisites=[item("a", "b"), item("b", {"name": "c"}), item("c", "b"), item("d")])
    assert (problem.where, problem.message) == ("prerequisites[3].require[0]", "Prerequisite cycle: b -> c -> b")
    problem = folder.problem(["s"], prerequisites=[item("s", "s")])
    assert problem.message == "Prerequisite cycle: s -> s"
