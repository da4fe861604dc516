"""When a job attempt is over, and how it ended (the completion policy of FrameworkController).

Per role: `min_failed` failed tasks fail the attempt, `min_succeeded` succeeded tasks make it succeed; the first of
all these conditions to be met decides. A task counts once it is completed, that is after its own retries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kedge.contract import STOPPED_BY_USER

SUCCEEDED = "succeeded"
FAILED = "failed"


class Role(NamedTuple):
    """What decides for one role; -1 switches a condition off."""

    name: str
    instances: int
    min_failed: int
    min_succeeded: int


@dataclass(frozen=True, slots=True)
class Completed:
    """A task that will not be tried again in this attempt."""

    role: str
    index: int
    succeeded: bool
    code: int


class Verdict(NamedTuple):
    """How the attempt ended: `outcome` is SUCCEEDED or FAILED, `code` its completion code.

    `task` is the one that triggered it, None when the job was stopped or merely ran out of tasks.
    """

    outcome: str
    task: Completed | None
    code: int
    text: str


STOPPED = Verdict(FAILED, None, STOPPED_BY_USER, "User has requested to stop the job")


class Tally:
    """Counts completed tasks as they come; `add` answers in constant time, so thousands of tasks cost nothing."""

    def __init__(self, roles: Iterable[Role]) -> None:
        self._roles = {role.name: role for role in roles}
        self._total = sum(role.instances for role in self._roles.values())
        self._counts: Counter[tuple[str, bool]] = Counter()

    def add(self, task: Completed) -> Verdict | None:
        """The verdict if this task's completion ends the attempt, else None."""
        self._counts[task.role, task.succeeded] += 1
        return self._triggered(task) or self._all_done()

    def _triggered(self, task: Completed) -> Verdict | None:
        role = self._roles[task.role]
        outcome, kind, wanted = (
            (SUCCEEDED, "Succeeded", role.min_succeeded) if task.succeeded else (FAILED, "Failed", role.min_failed)
        )
        count = self._counts[task.role, task.succeeded]
        if wanted < 1 or count < wanted:
            return None
        text = f"{kind}TaskCount {count} has reached Min{kind}TaskCount {wanted} in the TaskRole"
        return Verdict(outcome, task, task.code, text)

    def _all_done(self) -> Verdict | None:
        done = self._counts.total()
        if done < self._total:
            return None
        text = (
            f"CompletedTaskCount {done} has reached TotalTaskCount {self._total} and no user specified conditions in "
            "FrameworkAttemptCompletionPolicy have ever been triggered"
        )
        return Verdict(SUCCEEDED, None, 0, text)


def decide(roles: Iterable[Role], completed: Iterable[Completed], *, stop_requested: bool = False) -> Verdict | None:
    """The verdict over one attempt, None while it goes on. `completed` is in the order of completion times."""
    if stop_requested:
        return STOPPED
    tally = Tally(roles)
    return next((verdict for task in completed if (verdict := tally.add(task))), None)
