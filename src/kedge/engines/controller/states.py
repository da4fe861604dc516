"""The states of a task, and the only function that changes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kedge.contract import Report, TaskTimeLimit
from kedge.diagnose.model import Diagnosis
from kedge.engines.base import Task
from kedge.engines.controller.retries import Retries
from kedge.quick_dataclasses import dataclass
from kedge.states import State

_LONGEST = 1000  # characters
MOVES = {
    State.WAITING: {State.LAUNCHED, State.STOPPED, State.FAILED},  # failed: its time limit has passed
    State.LAUNCHED: {State.RUNNING, State.STOPPING, State.SUCCEEDED, State.FAILED},
    State.RUNNING: {State.STOPPING, State.SUCCEEDED, State.FAILED},
    State.STOPPING: {State.STOPPED, State.SUCCEEDED, State.FAILED},
    State.FAILED: {State.WAITING},  # a retry of the task alone
    State.SUCCEEDED: set(),
    State.STOPPED: set(),
}


@dataclass(slots=True)
class History:
    """The diagnosis of the previous attempt, and its progress by the counters in its log. None if the next attempt may
    well go differently."""

    failure: tuple[Diagnosis, Mapping[str, int]] | None = None

    def forget(self) -> None:
        self.failure = None

    def facts(self) -> dict[str, Any]:
        """It for the event log."""
        if self.failure is None:
            return {"history": None}
        found, progress = self.failure
        # What is compared with the next failure, and no more: readers skip long lines, and a task can write any report.
        rule, frame = found.rule[:_LONGEST], found.frame[:_LONGEST]
        compared = Diagnosis(found.cause, found.behaviour, found.confidence, "", "", (), rule=rule, frame=frame)
        return {"history": {"diagnosis": compared.to_json(), "progress": dict(progress)}}

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> History:
        """The inverse of `facts`. KeyError, TypeError or ValueError if they are not from there."""
        found = facts["history"]
        return cls((Diagnosis.from_json(found["diagnosis"]), found["progress"]) if found else None)


@dataclass(slots=True)
class TaskState:
    """The state of one task of the current job attempt. Times are from time.monotonic()."""

    task: Task
    state: State = State.WAITING
    task_attempt: int = 0
    retries: Retries = field(default_factory=Retries)
    history: History = field(default_factory=History)
    deadline: float | None = None  # when the task is killed if its stop has not worked
    report: Report | None = None
    limit: TaskTimeLimit | None = None  # the limit that has passed, other than the run's
    place_lost: bool = False  # it can be tried again only with the whole job


Emit = Callable[..., None]


def move(task: TaskState, state: State, emit: Emit, event: str | None = None, /, **facts: Any) -> None:
    """Move a task to a state and emit the event. A move that is not in MOVES is a bug."""
    assert state in MOVES[task.state], f"{task.task}: {task.state} -> {state}"
    task.state = state
    if event:
        emit(event, role=task.task.role, index=task.task.task_index, task_attempt=task.task_attempt, **facts)
