"""Why an attempt failed, from the reports of its tasks, and what that says about another attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kedge.contract import CANNOT_START, CURRENT, HOOK_FAILED, USER_ALL, Report
from kedge.diagnose import job, progress
from kedge.diagnose.classify import classify
from kedge.diagnose.job import JobVerdict, TaskResult
from kedge.diagnose.model import GUESS, STOPPED, Diagnosis, Evidence
from kedge.engines.base import Task
from kedge.engines.controller.states import FAILED, TaskState
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
        diagnosis=_diagnosis(report) if task.state == FAILED else None,
        phase=_PHASES.get(report.reason, "command"),
    )


def _diagnosis(report: Report) -> Diagnosis:
    """The task's own; where its supervisor could not make one, what the exit code alone says.

    Nor does it count what a supervisor takes for a stop by kedge: this task has failed, so it was a stranger's signal.
    """
    if report.diagnosis and report.diagnosis["cause"] != STOPPED:
        return Diagnosis.from_json(report.diagnosis)
    return classify(Evidence(logs=(), exit_code=report.user_exit_code or report.exit_code))


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
        if judged.task is None or judged.diagnosis is None or not _has_a_place(judged.diagnosis):
            self._before = None
            return False
        now = judged.diagnosis, self._reached(judged.task, attempt, tasks)
        before, self._before = self._before, now
        return before is not None and job.repeats(before[0], now[0]) and not progress.advanced(before[1], now[1])

    def _reached(self, name: str, attempt: int, tasks: Mapping[Task, TaskState]) -> Mapping[str, int]:
        task = next(task for key, task in tasks.items() if str(key) == name)
        folder = self._run.task(task.task.role, task.task.task_index, attempt, task.task_attempt)
        return progress.reached(tail(folder, f"{USER_ALL}/{CURRENT}", progress.TAIL))


def _has_a_place(found: Diagnosis) -> bool:
    """Whether it is more than a guess or an exit code, so that it can be known to be the same again."""
    return found.confidence != GUESS and bool(found.rule or found.frame)
