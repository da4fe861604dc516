"""Decides when a job attempt is over and how it ended (FrameworkController's completion policy).

For each role, `min_failed` failed tasks fail the attempt and `min_succeeded` succeeded tasks make it succeed; the first
condition to be met decides. A task counts once it is completed, that is, after its own retries. kedge adds one policy
of its own: every task runs to completion, and all must succeed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kedge.contract import STOPPED_BY_TIME_LIMIT, STOPPED_BY_USER
from kedge.quick_dataclasses import dataclass
from kedge.states import State


class Role(NamedTuple):
    """The completion conditions of one role; -1 switches a condition off."""

    name: str
    instances: int
    min_failed: int
    min_succeeded: int


@dataclass(frozen=True, slots=True)
class Completed:
    """A task that will not be retried in this attempt."""

    role: str
    index: int
    succeeded: bool
    code: int


class AttemptVerdict(NamedTuple):
    """How the attempt ended: `outcome` is SUCCEEDED or FAILED, `code` its completion code.

    `task` triggered the verdict; None if the job was stopped, or if all tasks completed without meeting a condition.
    """

    outcome: State
    task: Completed | None
    code: int
    text: str


STOPPED = AttemptVerdict(State.FAILED, None, STOPPED_BY_USER, "User has requested to stop the job")


def at_time_limit(text: str) -> AttemptVerdict:
    """The time of the whole run is over."""
    return AttemptVerdict(State.FAILED, None, STOPPED_BY_TIME_LIMIT, text)


class Tally:
    """Counts tasks as they complete; `add` takes constant time, so thousands of tasks cost little.

    `every`: the roles' conditions are ignored; all tasks run to completion and each must succeed.
    """

    def __init__(self, roles: Iterable[Role], *, every: bool = False) -> None:
        self._roles = {role.name: role for role in roles}
        self._every = every
        self._first_failed: Completed | None = None
        self._total = sum(role.instances for role in self._roles.values())
        self._counts: Counter[tuple[str, bool]] = Counter()

    def add(self, task: Completed) -> AttemptVerdict | None:
        """The verdict if this task's completion ends the attempt, otherwise None."""
        self._counts[task.role, task.succeeded] += 1
        if not task.succeeded:
            self._first_failed = self._first_failed or task
        if self._every:
            return self._every_one_done()
        return self._triggered(task) or self._all_done()

    def _every_one_done(self) -> AttemptVerdict | None:
        if self._counts.total() < self._total:
            return None
        failed = sum(count for (_, succeeded), count in self._counts.items() if not succeeded)
        text = f"{failed} of {self._total} tasks failed, and every task must succeed"
        if self._first_failed:
            return AttemptVerdict(State.FAILED, self._first_failed, self._first_failed.code, text)
        return AttemptVerdict(State.SUCCEEDED, None, 0, f"all {self._total} tasks have succeeded")

    def _triggered(self, task: Completed) -> AttemptVerdict | None:
        role = self._roles[task.role]
        outcome, kind, wanted = (
            (State.SUCCEEDED, "Succeeded", role.min_succeeded)
            if task.succeeded
            else (State.FAILED, "Failed", role.min_failed)
        )
        count = self._counts[task.role, task.succeeded]
        if wanted < 1 or count < wanted:
            return None
        text = f"{kind}TaskCount {count} has reached Min{kind}TaskCount {wanted} in the TaskRole"
        return AttemptVerdict(outcome, task, task.code, text)

    def _all_done(self) -> AttemptVerdict | None:
        done = self._counts.total()
        if done < self._total:
            return None
        text = (
            f"CompletedTaskCount {done} has reached TotalTaskCount {self._total} and no user specified conditions in "
            "FrameworkAttemptCompletionPolicy have ever been triggered"
        )
        return AttemptVerdict(State.SUCCEEDED, None, 0, text)


def decide(
    roles: Iterable[Role], completed: Iterable[Completed], *, every: bool = False, stop_requested: bool = False
) -> AttemptVerdict | None:
    """The verdict on one attempt; None while it continues. `completed` must be in order of completion time."""
    if stop_requested:
        return STOPPED
    tally = Tally(roles, every=every)
    return next((verdict for task in completed if (verdict := tally.add(task))), None)
