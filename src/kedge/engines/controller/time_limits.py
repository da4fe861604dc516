"""The time limits of a job and its tasks, by a clock that nobody can set.

Supervisors enforce the limits beside the command, so that they hold even while the controller is suspended. What has
not ended by itself SLACK_SEC later is stopped by the controller: tasks that wait, or whose supervisor has not started.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kedge.contract import (
    TIME_LIMIT,
    TIME_LIMITS_OF_ALLOCATION,
    TIME_LIMITS_OF_RUN,
    UNRECOGNISED,
    Report,
    TaskTimeLimit,
    duration_text,
)
from kedge.engines.base import Deadline, Task
from kedge.plan.model import Plan

if TYPE_CHECKING:
    from kedge.diagnose.model import Diagnosis

SLACK_SEC = 2.0


class TimeLimits:
    """The limits of one run, which begins now. A task's limit begins with its first start, and includes its retries."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.of_job = plan.time_limit
        self._job_end = time.monotonic() + plan.time_limit.limit_sec if plan.time_limit else math.inf
        self._task_ends: dict[Task, float] = {}

    def within(self, limit: TaskTimeLimit, end: float) -> None:
        """What the run has a place for ends then, by time.monotonic(). If that comes first, it is the run's limit."""
        if end < self._job_end:
            self.of_job, self._job_end = limit, end

    def began(self, when: float) -> None:
        """The run began at another time, by time.monotonic(), which may be before the boot."""
        if self.of_job:
            self._job_end = when + self.of_job.limit_sec

    def task_began(self, task: Task, when: float) -> None:
        """A task was started at this time, by time.monotonic(). Only its first start counts."""
        if limit := self._plan.role(task.role).time_limit:
            self._task_ends.setdefault(task, when + limit.limit_sec)

    def stood_still(self, seconds: float) -> None:
        """Nothing of the run had a place for so long, which counts for no limit."""
        self._job_end += seconds
        for task in self._task_ends:
            self._task_ends[task] += seconds

    def start(self, task: Task) -> tuple[Deadline, ...]:
        """The deadlines of an attempt of a task that starts now."""
        role = self._plan.role(task.role)
        found = [Deadline(self.of_job, self._job_end)] if self.of_job else []
        if role.time_limit:
            self.task_began(task, time.monotonic())
            found.append(Deadline(role.time_limit, self._task_ends[task]))
        return (*found, *([Deadline(role.attempt_time_limit, None)] if role.attempt_time_limit else ()))

    def job_left(self) -> float:
        """The seconds that are left for the run; infinite without a limit."""
        return self._job_end - time.monotonic()

    def job_is_over(self) -> bool:
        """Whether the run's limit has passed, or its supervisors may say so."""
        return self.job_left() <= SLACK_SEC

    def next_end(self, tasks: Iterable[Task]) -> float:
        """When the controller must look at these tasks."""
        return min([self._job_end, *(self._task_ends.get(task, math.inf) for task in tasks)]) + SLACK_SEC

    def of_task(self, task: Task, key: str) -> TaskTimeLimit | None:
        """The limit of a task, or of each of its attempts, by its key; None if it has no such limit."""
        role = self._plan.role(task.role)
        return next((one for one in (role.time_limit, role.attempt_time_limit) if one and one.key == key), None)

    def passed(self, task: Task) -> TaskTimeLimit | None:
        """The limit of a task that should have ended it by now."""
        over = self._task_ends.get(task, math.inf) + SLACK_SEC <= time.monotonic()
        return self._plan.role(task.role).time_limit if over else None


def left(deadlines: Iterable[Deadline]) -> tuple[TaskTimeLimit, ...]:
    """The limits as a supervisor that starts now must know them."""
    now = time.monotonic()
    return tuple(
        one.limit if one.end is None else one.limit._replace(left_sec=max(0.0, one.end - now)) for one in deadlines
    )


def at_limit(report: Report, limit: TaskTimeLimit) -> Report:
    """The report of an attempt that the controller has ended at a limit, because its supervisor had not."""
    return report._replace(
        exit_code=UNRECOGNISED,
        reason=TIME_LIMIT,
        message=limit.message,
        time_limit=limit.key,
        limit_reached=report.ended,
        diagnosis=diagnosis(limit).to_json(),
    )


def diagnosis(limit: TaskTimeLimit) -> Diagnosis:
    """Why a job or a task ended at a limit that includes retries."""
    from kedge.diagnose.decide.limits import of_time_limit

    return of_time_limit(limit._replace(left_sec=0.0))


def reached(limit: TaskTimeLimit) -> str:
    """What an event about a limit says. Tasks are stopped some time before the end of an allocation."""
    if limit.key in TIME_LIMITS_OF_ALLOCATION:
        return f"the time of the allocation is nearly over ({limit.key})"
    return f"{limit.key} of {duration_text(limit.limit_sec)} has passed"


def is_of_job(key: str | None) -> bool:
    """Whether a limit is that of the whole run."""
    return key in TIME_LIMITS_OF_RUN
