"""Runs a program beside a running task."""

from __future__ import annotations

from kedge.engines.base import ExecRequest, Task, TaskAttempt
from kedge.errors import InputError
from kedge.jobs import runs, task_names
from kedge.runs import status
from kedge.runs.folder import Run
from kedge.states import State


def run(found: Run, name: str, request: ExecRequest) -> int:
    """Run a program beside the latest attempt of the task with this name, and return its exit code. InputError: the
    task is not running; CannotRun: it cannot be reached."""
    task = Task(*task_names.find_one(found, name))
    now = status.read(found)
    (one,) = (each for each in now.tasks if (each.role, each.index) == task)
    if one.state != State.RUNNING:
        raise InputError(f"{task} of {found.id} is not running: its state is {one.state}")
    attempt = TaskAttempt(task, now.attempt, one.attempts - 1)
    return runs.engine_of(found).exec(found, attempt, request)
