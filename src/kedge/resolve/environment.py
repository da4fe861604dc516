"""The environment variables that a job and its submitter set for the tasks of a role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kedge.contract import ENVIRONMENT_STRING_LIMIT, ENVIRONMENT_TOTAL_LIMIT, Text, render_text
from kedge.errors import Problem
from kedge.spec.model import Job, Path

Render = Callable[[str, Path], Text]


def of_role(job: Job, role: str, render: Render) -> dict[str, Text]:
    """The variables of the job file for a role: those of the job, then those of the role."""
    found: dict[str, Text] = {}
    for path, values in _mappings(job, role):
        found |= {
            name: render(_source_text(job, (*path, name), value), (*path, name)) for name, value in values.items()
        }
    return found


def problems(job: Job, role: str, variables: Mapping[str, Text], secrets: Mapping[str, str]) -> list[Problem]:
    """What is wrong with the values of a role. `secrets` has the texts of secrets by SecretRef key."""
    sizes = {name: _size(name, text, secrets) for name, text in variables.items()}
    found = [
        job.source.problem(_place(job, role, name), f"has {size} bytes; the limit is {ENVIRONMENT_STRING_LIMIT}")
        for name, size in sizes.items()
        if size > ENVIRONMENT_STRING_LIMIT
    ]
    if (total := sum(sizes.values())) > ENVIRONMENT_TOTAL_LIMIT:
        message = f"the variables have {total} bytes together; the limit is {ENVIRONMENT_TOTAL_LIMIT}"
        found.append(job.source.problem(_mappings(job, role)[-1][0], message, key=True))
    for name, text in variables.items():
        if any(isinstance(part, str) and "\0" in part for part in text):
            found.append(job.source.problem(_place(job, role, name), "must not contain a NUL character"))
    return found


def _mappings(job: Job, role: str) -> list[tuple[Path, Mapping[str, Any]]]:
    """The mappings of variables for a role, those that take precedence last."""
    top: Path = ("extras", "kedge")
    return [((*top, "env"), job.kedge.env), ((*top, "taskRoles", role, "env"), job.kedge.role(role).env)]


def _place(job: Job, role: str, name: str) -> Path:
    """Where the file sets a variable of a role."""
    places = (((*path, name), values) for path, values in reversed(_mappings(job, role)))
    return next((path for path, values in places if name in values), ("extras", "kedge", "env"))


def _source_text(job: Job, path: Path, value: Any) -> str:
    if isinstance(value, str):
        return value
    mark = job.source.marks.get(path)
    return mark.scalar if mark and mark.scalar is not None else str(value)


def _size(name: str, text: Text, secrets: Mapping[str, str]) -> int:
    """The bytes of NAME=VALUE with the final NUL."""
    return len(name) + 2 + len(render_text(text, secrets).encode("utf-8", "surrogateescape"))
