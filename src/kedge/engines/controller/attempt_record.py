"""What is known about a job attempt: what its controller works on, and what a second one makes of its events."""

from __future__ import annotations

from kedge.contract import DISK_FULL
from kedge.engines.base import Task
from kedge.engines.controller.allocation import Allocation
from kedge.engines.controller.states import TaskState
from kedge.plan.model import Plan
from kedge.policy.completion import AttemptVerdict, Completed, Role, Tally
from kedge.states import FINAL, State


class AttemptRecord:
    """One job attempt; at first a new one, of which nothing has happened.

    `begun`: an earlier controller has recorded its beginning. `due` is when waiting tasks may start, by
    time.monotonic(), if not at once. `verdict` is the decision that its events contain; `stops` is how many requests to
    stop it has seen. `told` are the events about limits and notices, of which one for all tasks is enough. `warned` are
    tasks to warn once they run, `released`: an earlier controller had to end the hold. `lost`: the allocation that
    came after that of the attempt.
    """

    def __init__(self, plan: Plan) -> None:
        self.tasks = {task: TaskState(task) for task in (Task(*item) for item in plan.tasks())}
        self._tally = Tally(
            [Role(r.name, r.instances, r.completion.min_failed, r.completion.min_succeeded) for r in plan.roles],
            every=plan.every_task_succeeds,
        )
        self.begun = False
        self.due: dict[Task, float] = {}
        self.verdict: AttemptVerdict | None = None
        self.stops = 0
        self.told: set[str] = set()
        self.warned: set[Task] = set()
        self.released = False
        self.disk_full = False
        self.lost: Allocation | None = None

    @property
    def open(self) -> int:
        """The number of tasks that have not ended for good."""
        return sum(task.state not in FINAL for task in self.tasks.values())

    @property
    def running(self) -> dict[Task, int]:
        """The tasks that have been started and have not ended, by their attempts."""
        idle = (State.WAITING, *FINAL)
        return {name: task.task_attempt for name, task in self.tasks.items() if task.state not in idle}

    def count(self, task: TaskState, code: int) -> AttemptVerdict | None:
        """Count a task that has ended for good. Returns the verdict if this decides the attempt, in case that nothing
        else has decided it before."""
        verdict = self._tally.add(Completed(*task.task, task.state == State.SUCCEEDED, code))
        if task.report and task.report.reason == DISK_FULL and not self.disk_full:
            self.disk_full = True
            return AttemptVerdict(State.FAILED, None, task.report.exit_code, task.report.message)
        return self.loss if self.lost and task.state != State.SUCCEEDED else verdict

    @property
    def loss(self) -> AttemptVerdict:
        """The verdict if the allocation has ended before the attempt."""
        assert self.lost is not None
        return AttemptVerdict(State.FAILED, None, self.lost.code, self.lost.ending)
