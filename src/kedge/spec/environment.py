"""The environment variables that a job sets for its tasks: where they are in the file, and which names are reserved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.errors import Problem
from kedge.late_patterns import late_pattern
from kedge.spec.message_text import quote
from kedge.spec.model import JobFileSource, Path
from kedge.spec.tolerant import mapping

NAME_RULE = "must have only letters, digits and '_', and no digit first"  # as in the schema

_NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIXES = ("PAI_", "FC_", "KEDGE_")
_NAMES = frozenset({"RUNTIME_LOG_PIPE", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})


def is_name(text: str) -> bool:
    """Whether a text can be the name of a variable."""
    return bool(_NAME.fullmatch(text))


def is_reserved(name: str) -> bool:
    """Whether only kedge sets this variable in a task."""
    return name.startswith(_PREFIXES) or name in _NAMES


def why_reserved(name: str) -> str:
    """The reason to refuse a reserved name, for a message."""
    reserved = ", ".join((*(f"{prefix}*" for prefix in _PREFIXES), *sorted(_NAMES)))
    return f"{quote(name)} is reserved: kedge sets {reserved}; choose another name"


def mappings(job: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Path and value of each mapping of variables in a job file: that of the job, and those of roles."""
    kedge = mapping(mapping(job.get("extras")).get("kedge"))
    yield ("extras", "kedge", "env"), mapping(kedge.get("env"))
    for name, role in mapping(kedge.get("taskRoles")).items():
        yield ("extras", "kedge", "taskRoles", name, "env"), mapping(mapping(role).get("env"))


def check(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A problem for each variable that only kedge sets."""
    for path, variables in mappings(job):
        for name in filter(is_reserved, variables):
            yield source.problem((*path, name), why_reserved(name), key=True)
