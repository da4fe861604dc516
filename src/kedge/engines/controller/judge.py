"""Why an attempt failed, from the reports of its tasks, and what that says about another attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kedge.contract import CANNOT_START, CURRENT, HOOK_FAILED, USER_ALL, Report
from kedge.diagnose import job, progress
from kedge.diagnose.job import JobVerdict, TaskResult
from kedge.diagnose.model import GUESS, Diagnosis
from kedge.engines.base import Task
from kedge.engines.controller.states import TaskState
from kedge.policy import codes
from kedge.policy.codes import Behaviour
from kedge.runs.folder import Run
from kedge.runs.logs import tail

_PHASES = {HOOK_FAILED: "hook", CANNOT_START: "init"}


def judge(tasks: Iterable[TaskState]) -> JobVerdict:
    """The root task and cause of an attempt, everything else folded under it."""
    return job.verdict([_result(task, task.report) for task in tasks if task.report])


def _result(task: TaskState, report: Report) -> TaskResult:
    return TaskResult(
        task=str(task.task),
        state=task.state,
        ended=datetime.fromisoformat(report.ended).timestamp(),
        diagnosis=Diagnosis.from_json(report.diagnosis) if report.diagnosis else None,
        phase=_PHASES.get(report.reason, "command"),
    )


def behaviour(judged: JobVerdict, code: int) -> Behaviour:
    """Whether a retry can help: what the root cause says; where that says nothing, what the completion code says."""
    said = Behaviour(judged.diagnosis.behaviour) if judged.diagnosis else Behaviour.UNKNOWN
    return codes.behaviour(code) if said is Behaviour.UNKNOWN else said


class History:
    """What the attempt before failed of, and how far it had come."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: tuple[Diagnosis, Mapping[str, int]] | None = None

    def goes_in_circles(self, judged: JobVerdict, attempt: int, tasks: Mapping[Task, TaskState]) -> bool:
        """Whether this attempt failed as the one before did, at the same place, and got no further."""
        if judged.task is None or judged.diagnosis is None or judged.diagnosis.confidence == GUESS:
            self._before = None  # what is only guessed is not known to be the same
            return False
        now = judged.diagnosis, self._reached(judged.task, attempt, tasks)
        before, self._before = self._before, now
        return before is not None and job.repeats(before[0], now[0]) and not progress.advanced(before[1], now[1])

    def _reached(self, name: str, attempt: int, tasks: Mapping[Task, TaskState]) -> Mapping[str, int]:
        task = next(task for key, task in tasks.items() if str(key) == name)
        folder = self._run.task(task.task.role, task.task.task_index, attempt, task.task_attempt)
        return progress.reached(tail(f"{folder}/{USER_ALL}/{CURRENT}", progress.TAIL))
