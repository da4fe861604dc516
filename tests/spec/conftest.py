"""A valid job, and fixtures that change single values in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kedge.errors import ERROR, InputError, Problem
from kedge.spec.model import Job
from kedge.spec.parse import parse

Change = Callable[..., Job]
DELETE = object()


def base() -> dict[str, Any]:
    return {
        "protocolVersion": 2,
        "name": "j",
        "type": "job",
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "u"}],
        "taskRoles": {
            "w": {
                "dockerImage": "img",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0},
                "commands": ["a"],
            }
        },
    }


def put(job: Any, path: str, value: Any) -> None:
    """Set the value at a path such as `taskRoles/w/instances`; `prerequisites/+` appends to the list."""
    *steps, last = path.split("/")
    for step in steps:
        job = job[int(step)] if isinstance(job, list) else job.setdefault(step, {})
    if isinstance(job, list):
        job.append(value) if last == "+" else job.__setitem__(int(last), value)
    elif value is None and last.endswith("!"):
        del job[last[:-1]]
    else:
        job[last] = value


@pytest.fixture
def changed() -> Change:
    """`changed({path: value, ...})` parses the base job with these values; JSON is YAML."""

    def parse_changed(changes: dict[str, Any]) -> Job:
        job = base()
        for path, value in changes.items():
            put(job, path, value)
        return parse(json.dumps(job, indent=1))

    return parse_changed


@pytest.fixture
def complaints(changed: Change) -> Callable[[dict[str, Any]], list[str]]:
    """`complaints({path: value, ...})` returns the errors of the changed job, as `where: message`."""

    def find(changes: dict[str, Any]) -> list[str]:
        try:
            changed(changes)
        except InputError as error:
            return [f"{p.where}: {p.message}" for p in error.problems if isinstance(p, Problem) and p.severity == ERROR]
        return []

    return find


@pytest.fixture
def problems(changed: Change) -> Callable[[dict[str, Any]], list[Problem]]:
    """`problems({path: value, ...})` returns the errors and warnings of the changed job."""

    def find(changes: dict[str, Any]) -> list[Problem]:
        try:
            return list(changed(changes).warnings)
        except InputError as error:
            return [problem for problem in error.problems if isinstance(problem, Problem)]

    return find
