"""Determines why a job attempt failed, from the reports of its tasks, and what matters for a retry."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kedge.contract import CANNOT_START, HOOK_FAILED, TIME_LIMIT, Report, TaskTimeLimit
from kedge.diagnose.decide import job
from kedge.diagnose.decide.job import JobVerdict, TaskResult
from kedge.diagnose.model import STOPPED, Diagnosis
from kedge.engines.controller import reports, time_limits
from kedge.engines.controller.states import History, TaskState
from kedge.policy.retry_decision import Failure
from kedge.runs.folder import Run
from kedge.states import State

_PHASES = {HOOK_FAILED: "hook", CANNOT_START: "init"}
_SHORT_JOB_SEC = 1.0


def judge(tasks: Iterable[TaskState], limit: TaskTimeLimit | None = None) -> JobVerdict:
    """The root task and cause of an attempt, with everything else folded under it. With `limit`, that limit of the
    whole run is the cause, and no task."""
    results = [_result(task, task.report) for task in tasks if task.report]
    return job.at_time_limit(time_limits.diagnosis(limit), results) if limit else job.verdict(results)


def judge_loss(cause: str | None, text: str) -> JobVerdict:
    """Why an attempt ended whose allocation is gone: by no task. Without a cause, nothing is known."""
    return JobVerdict(None, _failures().of_loss(cause, text) if cause else None)


def _result(task: TaskState, report: Report) -> TaskResult:
    if report.time_limit and report.reason == TIME_LIMIT:
        # What its peers report when it is stopped is a consequence, so the beginning of the stop counts.
        began = datetime.fromisoformat(report.limit_reached or report.ended).timestamp()
        return TaskResult(str(task.task), State.FAILED, began, _diagnosis(report))
    return TaskResult(
        task=str(task.task),
        state=task.state,
        ended=datetime.fromisoformat(report.ended).timestamp(),
        diagnosis=_diagnosis(report) if task.state == State.FAILED else _before_stop(report),
        phase=_PHASES.get(report.reason, "command"),
    )


def _diagnosis(report: Report) -> Diagnosis:
    """The diagnosis of the task's supervisor or, without one, of the exit code alone.

    A diagnosis that the task was stopped is ignored as well: this task failed, so the signal was not from kedge.
    """
    if report.diagnosis and report.diagnosis["cause"] != STOPPED:
        return Diagnosis.from_json(report.diagnosis)
    found: Diagnosis = _failures().of_code(report)
    return found


def _before_stop(report: Report) -> Diagnosis | None:
    """The diagnosis of a task that had failed before it was stopped; None if it had not."""
    found = Diagnosis.from_json(report.diagnosis) if report.diagnosis else None
    return found if found and found.before_stop else None


class Judge:
    """Collects what matters for a retry after a failure, including the rows of the user's own exit spec, if one is
    among the files of `rules`.

    What explains failures is loaded when there is one, since most jobs have none, or when `loads_at` (a value of
    time.monotonic) has come: a kedge that is replaced while a long job runs must not be mixed into it.
    """

    def __init__(self, run: Run, rules: Iterable[str] = ()) -> None:
        self.run, self._rules = run, tuple(rules)
        self._made = self._make() if rules else None  # the rules as they are before any task can change them
        self.loads_at: float | None = time.monotonic() + _SHORT_JOB_SEC

    def report(self, task: TaskState, attempt: int) -> Report | None:
        """The report in the folder of a task's latest attempt; None if there is none."""
        return reports.stored(self.run, task.task, attempt, task.task_attempt)

    def load(self) -> None:
        """Load what explains failures."""
        _failures()
        self.loads_at = None

    def failure(self, judged: JobVerdict, code: int, attempt: int, root: TaskState | None, before: History) -> Failure:
        """What matters of an attempt that completed with `code`; `root` is the task that `judged` names. The failure is
        recorded in `before` as the latest one."""
        self._made = self._made or self._make()
        found: Failure = self._made.failure(judged, code, attempt, root, before)
        return found

    def _make(self) -> Any:
        return _failures().Failures(self.run, self._rules)


def _failures() -> Any:
    return importlib.import_module("kedge.engines.controller.failures")
