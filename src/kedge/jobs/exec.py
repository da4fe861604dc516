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
    (state,) = (each.state for each in status.read(found).tasks if (each.role, each.index) == task)
    if state != State.RUNNING:
        raise InputError(f"{task} of {found.id} is not running: its state is {state}")
    attempt = found.attempts()[-1]
    task_attempt = max(each.task_attempt for each in found.tasks(attempt) if (each.role, each.task_index) == task)
    return runs.engine_of(found).exec(found, TaskAttempt(task, attempt, task_attempt), request)
