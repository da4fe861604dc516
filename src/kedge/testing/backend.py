"""A Backend without processes: a script states what happens, turn by turn; every call of the controller is recorded.

For tests of code that uses a Backend, such as the controller's own loop. A job of two tasks; the first fails while the
second runs:

    backend = ScriptedBackend([failed(A)], [stopped(B)])
    with backend, Stops() as stops:
        outcome = run_job(plan, run, backend, stops, emit, random.random)
    assert backend.calls == ["place 0", "start w:0", "start w:1", "stop w:1"]
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kedge.contract import COMMAND_FAILED, SUCCEEDED, Report
from kedge.engines.base import (
    Deadline,
    Ended,
    HeldInQueue,
    HookRetrying,
    LimitReached,
    PreemptionNotice,
    ServiceEnded,
    ServiceStarted,
    Started,
    StopAnnounced,
    Task,
    TaskHeld,
    TaskPlaced,
    TaskReachable,
    TaskUnreachable,
    Update,
)

# What a turn consists of: an update for the controller, or anything else that happens meanwhile, as a stop request.
Happening = Update | Callable[[], object]

_UPDATES = (
    Started, TaskHeld, HookRetrying, LimitReached, StopAnnounced, ServiceStarted, ServiceEnded, PreemptionNotice,
    TaskPlaced, HeldInQueue, TaskUnreachable, TaskReachable, Ended,
)  # fmt: skip
_THEN = "2026-01-01T00:00:00.000000000Z"


class ScriptedBackend:
    """A Backend that starts nothing. Each turn of the script is what happens until the controller looks the next time:
    all its updates come from one `poll`. A turn comes when the controller has nothing left to start and waits.

    `at_start` is what happens at once when a task is started, before the next one is. `refuses` raises what it holds
    from `place`, by job attempt. AssertionError, so that a test fails instead of waiting for ever: the controller waits
    when the script is over, or asks for something of a task that has not started, or whose end it has taken already.

    `calls` has every call, such as `start w:0`, or `start w:0 again` for a retry of a task alone. It is a context that
    closes itself.
    """

    def __init__(
        self,
        *turns: Iterable[Happening],
        at_start: Mapping[Task, Iterable[Happening]] | None = None,
        refuses: Mapping[int, Exception] | None = None,
    ) -> None:
        self.calls: list[str] = []
        self._turns = deque(turns)
        self._at_start, self._refuses = dict(at_start or {}), dict(refuses or {})
        self._running: set[Task] = set()
        self._started: Task | None = None
        self._always, self._writer = os.pipe()  # always readable: something happens, or the script is over
        os.write(self._writer, b"\0")

    def __enter__(self) -> ScriptedBackend:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def turns_left(self) -> int:
        """How many turns have not happened."""
        return len(self._turns)

    def place(self, attempt: int) -> None:
        self.calls.append(f"place {attempt}")
        assert not self._running, f"{_names(self._running)} of the attempt before still run"
        if attempt in self._refuses:
            raise self._refuses[attempt]

    def adopt(self, attempt: int, running: Mapping[Task, int]) -> None:
        raise AssertionError("a script has one controller")

    def start(self, task: Task, attempt: int, task_attempt: int, deadlines: tuple[Deadline, ...] = ()) -> None:
        self.calls.append(f"start {task}" + (" again" if task_attempt else ""))
        assert task not in self._running, f"{task} runs already"
        self._running.add(task)
        self._started = task

    def warn(self, task: Task) -> None:
        self._call("warn", task)

    def stop(self, task: Task) -> None:
        self._call("stop", task)

    def end_grace(self, task: Task) -> None:
        self._call("end_grace", task)

    def kill(self, task: Task) -> None:
        self._call("kill", task)

    def fileno(self) -> int:
        return self._always

    due = math.inf

    def poll(self) -> list[Update]:
        if self._started:
            task, self._started = self._started, None
            return self._happen(self._at_start.pop(task, ()))
        assert self._turns, f"the script is over, and the controller waits for {_names(self._running) or 'nothing'}"
        return self._happen(self._turns.popleft())

    def close(self) -> None:
        os.close(self._always)
        os.close(self._writer)

    def _call(self, name: str, task: Task) -> None:
        self.calls.append(f"{name} {task}")
        assert task in self._running, f"{name} of {task}, which does not run"

    def _happen(self, turn: Iterable[Happening]) -> list[Update]:
        updates = _Updates(self._running)
        for happening in turn:
            if isinstance(happening, _UPDATES):
                updates.append(happening)
            else:
                happening()
        return updates


class _Updates(list[Update]):
    """The updates of one turn. A task runs, for all that the controller knows, until it takes the task's end."""

    def __init__(self, running: set[Task]) -> None:
        super().__init__()
        self._running = running

    def __iter__(self) -> Iterator[Update]:
        for update in super().__iter__():
            if isinstance(update, Ended):
                assert update.task in self._running, f"the script ends {update.task}, which does not run"
                self._running.remove(update.task)
            yield update


def succeeded(task: Task) -> Ended:
    """The task's command has ended well."""
    return ended(task, 0, reason=SUCCEEDED, message="")


def failed(task: Task, code: int = 1, **facts: Any) -> Ended:
    """The task's command has failed with this exit code."""
    return ended(task, code, **{"user_exit_code": code, **facts})


def stopped(task: Task, code: int = 143, **facts: Any) -> Ended:
    """The task has ended because it was told to stop."""
    return ended(task, code, **{"stopped_by": "SIGTERM", **facts})


def ended(task: Task, code: int, **facts: Any) -> Ended:
    """An attempt of the task has ended with this exit code of its container; `facts` are other fields of its Report."""
    report = Report(
        task=str(task),
        job_attempt=0,
        task_attempt=0,
        exit_code=code,
        user_exit_code=None,
        reason=COMMAND_FAILED,
        message=f"exit code {code}",
        started=_THEN,
        ended=_THEN,
        duration_sec=0.0,
    )
    return Ended(task, report._replace(**facts))


def _names(tasks: Iterable[Task]) -> str:
    return ", ".join(sorted(map(str, tasks)))
