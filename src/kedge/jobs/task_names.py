"""The tasks of a run that a user names: one (`worker:3`, `worker-3`), or all of a role (`worker`)."""

from __future__ import annotations

from collections.abc import Iterable

from kedge.errors import InputError
from kedge.runs import status
from kedge.runs.folder import Run, is_task, parse_task

TaskName = tuple[str, int]  # role and index


def find(run: Run, names: Iterable[str]) -> set[TaskName]:
    """The tasks with these names and of these roles. InputError for a name that no task has."""
    known = [(task.role, task.index) for task in status.read(run).tasks]
    return {task for name in names for task in _named(run, name, known)}


def find_one(run: Run, name: str) -> TaskName:
    """The task with this name, or the only task of the role with this name. InputError if there is none."""
    found = find(run, [name])
    if len(found) != 1:
        raise InputError(f"{name} is a role with {len(found)} tasks: name one of them, for example {name}:0")
    return found.pop()


def _named(run: Run, name: str, known: list[TaskName]) -> list[TaskName]:
    found = [task for task in known if task[0] == name]
    if not found and (is_task(name) or not known):
        found = [task for task in known if task == parse_task(name)]
    if not found:
        roles = ", ".join(f"{role} (0 to {last})" for role, last in dict(known).items())
        raise InputError(f"{run.id} has no task or role {name}; its roles are {roles}")
    return found
