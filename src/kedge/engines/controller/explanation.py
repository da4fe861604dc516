"""Why a job attempt has ended as it did, as text for people."""

from __future__ import annotations

from collections.abc import Mapping

from kedge.diagnose.decide.job import JobVerdict
from kedge.diagnose.model import UNKNOWN
from kedge.engines.base import Task
from kedge.engines.controller.states import TaskState
from kedge.policy.completion import AttemptVerdict
from kedge.states import State


def explain(verdict: AttemptVerdict, tasks: Mapping[Task, TaskState], judged: JobVerdict) -> str:
    """The verdict on an attempt with these tasks: the root cause if it is known, otherwise the end that decided."""
    failed = sum(task.state == State.FAILED for task in tasks.values())
    if failed and verdict.outcome == State.SUCCEEDED:
        return f"Succeeded by its completion policy; {failed} of {len(tasks)} tasks failed"
    if verdict.task is None:
        return verdict.text
    root = root_task(tasks, judged)
    if root and root.report and root.report.time_limit:
        return f"{root.task}: {root.report.message}"
    if judged.task and judged.diagnosis and judged.diagnosis.cause != UNKNOWN:
        return f"{judged.task}: {judged.diagnosis.cause}"
    decider = root or tasks[Task(verdict.task.role, verdict.task.index)]
    message = decider.report.message if decider.report else verdict.text
    return f"{decider.task}: {message}"


def root_task(tasks: Mapping[Task, TaskState], judged: JobVerdict) -> TaskState | None:
    """The task that failed first, and not because of another task."""
    return next((state for task, state in tasks.items() if str(task) == judged.task), None)
