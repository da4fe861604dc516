"""One attempt of a job: starts all tasks together and follows each to its end, until the completion policy decides."""

from __future__ import annotations

import heapq
import selectors
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kedge.contract import DISK_FULL, STOPPED_BY_COMPLETION, STOPPED_BY_USER, Report
from kedge.diagnose.decide.job import JobVerdict
from kedge.diagnose.model import UNKNOWN
from kedge.engines.base import Backend, Ended, HookRetrying, Task, Update
from kedge.engines.controller.judge import Judge, judge
from kedge.engines.controller.states import Emit, TaskState, move
from kedge.engines.controller.stop_requests import Stops
from kedge.plan.model import Plan
from kedge.policy import completion, retry
from kedge.runs.job_events import JobEvent
from kedge.states import State

# How long after the end of its grace period a task's supervisor may take to finish its hooks and logs.
PATIENCE_SEC = 60.0
PATIENCE_AFTER_KILL_SEC = 15.0


class Attempt:
    """Runs one attempt; `run` returns its verdict when all its tasks have ended."""

    def __init__(
        self,
        plan: Plan,
        number: int,
        backend: Backend,
        stops: Stops,
        judging: Judge,
        emit: Emit,
        random: Callable[[], float],
    ) -> None:
        self._plan, self._number, self._backend, self._stops = plan, number, backend, stops
        self._judging, self._emit, self._random = judging, emit, random
        self._tally = completion.Tally(
            [
                completion.Role(r.name, r.instances, r.completion.min_failed, r.completion.min_succeeded)
                for r in plan.roles
            ],
            every=plan.every_task_succeeds,
        )
        self.tasks = {task: TaskState(task) for task in (Task(*item) for item in plan.tasks())}
        # A heap of (earliest time, place in the job file, task).
        self._to_start = [(0.0, number, task) for number, task in enumerate(self.tasks)]
        self._open = len(self.tasks)  # tasks that have not ended for good
        self._verdict: completion.AttemptVerdict | None = None
        self._stops_seen = 0
        self.disk_full = False

    def explain(self, judged: JobVerdict) -> str:
        """The verdict as text for people: the root cause if it is known, otherwise the end that decided."""
        assert self._verdict is not None
        failed = sum(task.state == State.FAILED for task in self.tasks.values())
        if failed and self._verdict.outcome == State.SUCCEEDED:
            return f"Succeeded by its completion policy; {failed} of {len(self.tasks)} tasks failed"
        if self._verdict.task is None:
            return self._verdict.text
        if judged.task and judged.diagnosis and judged.diagnosis.cause != UNKNOWN:
            return f"{judged.task}: {judged.diagnosis.cause}"
        decider = self.tasks[Task(self._verdict.task.role, self._verdict.task.index)]
        message = decider.report.message if decider.report else self._verdict.text
        return f"{decider.task}: {message}"

    def root(self, judged: JobVerdict) -> TaskState | None:
        """The task that failed first, and not because of another task."""
        return next((state for task, state in self.tasks.items() if str(task) == judged.task), None)

    def run(self) -> completion.AttemptVerdict:
        self._emit(JobEvent.ATTEMPT_STARTED, attempt=self._number)
        self._backend.place(self._number)
        with selectors.DefaultSelector() as selector:
            selector.register(self._backend, selectors.EVENT_READ)
            selector.register(self._stops, selectors.EVENT_READ)
            while self._open or self._verdict is None:
                self._step(selector)
        return self._verdict

    def _step(self, selector: selectors.BaseSelector) -> None:
        """One turn of the loop: start the tasks that are due, process updates and stop requests, kill overdue tasks."""
        started = self._start_next()
        selector.select(0 if started else self._timeout())
        self._stops.drain()
        if self._judging.loads_at is not None and self._judging.loads_at <= time.monotonic():
            self._judging.load()
        for update in self._backend.poll():
            self._take(update)
        if self._stops.count > self._stops_seen:
            self._stop_requested()
        self._enforce_stops()

    def _start_next(self) -> bool:
        if not self._to_start or self._to_start[0][0] > time.monotonic():
            return False
        _, _, name = heapq.heappop(self._to_start)
        task = self.tasks[name]
        move(task, State.LAUNCHED, self._emit, JobEvent.TASK_LAUNCHED)
        self._backend.start(name, self._number, task.task_attempt)
        return True

    def _timeout(self) -> float | None:
        """Seconds until the next start or kill is due, or a load; None if none is."""
        due = [when for when, _, _ in self._to_start[:1]]
        if self._judging.loads_at is not None:
            due.append(self._judging.loads_at)
        if self._verdict is not None:
            due += [task.deadline for task in self.tasks.values() if task.deadline is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _take(self, update: Update) -> None:
        task = self.tasks[update.task]
        if isinstance(update, Ended):
            self._ended(task, update.report)
        elif isinstance(update, HookRetrying):
            self._retrying(update)
        elif task.state == State.LAUNCHED:
            move(task, State.RUNNING, self._emit)

    def _retrying(self, update: HookRetrying) -> None:
        task, facts = update.task, update._asdict()
        del facts["task"]
        self._emit(JobEvent.HOOK_RETRYING, role=task.role, index=task.task_index, **facts)

    def _ended(self, task: TaskState, report: Report) -> None:
        task.report, task.deadline = report, None
        if report.reason == DISK_FULL and not self.disk_full:
            self.disk_full = True
            self._end(completion.AttemptVerdict(State.FAILED, None, report.exit_code, report.message), ended=task)
        if task.state == State.STOPPING and report.stopped_by is not None:
            self._complete(task, State.STOPPED, self._stop_code())
        elif report.exit_code == 0:
            self._complete(task, State.SUCCEEDED, 0)
        elif not self._retried(task, report):
            self._complete(task, State.FAILED, report.exit_code)

    def _complete(self, task: TaskState, state: State, code: int) -> None:
        """Record that the task has ended for good, and check whether that decides the attempt."""
        facts = _facts(task.report, code) | (task.retries.facts() if state == State.FAILED else {})
        move(task, state, self._emit, JobEvent.TASK_COMPLETED, succeeded=state == State.SUCCEEDED, **facts)
        self._open -= 1
        verdict = self._tally.add(completion.Completed(*task.task, state == State.SUCCEEDED, code))
        if verdict is not None:
            self._end(verdict)

    def _retried(self, task: TaskState, report: Report) -> bool:
        """Retry the task alone if the job has no gang allocation and the policy allows it. Returns whether it does."""
        if self._plan.gang or self._verdict is not None or self.disk_full:
            return False
        role = self._plan.role(task.task.role)
        policy = retry.Policy(True, role.task_retry_count)
        judged = judge([replace(task, state=State.FAILED)])
        failure = self._judging.failure(judged, report.exit_code, self._number, task, task.history)
        delay = task.retries.again(policy, self._plan.retry, failure, self._random, job=False)
        if delay is None:
            return False
        facts = {"delay_sec": round(delay, 3), **task.retries.facts(), **_facts(report, report.exit_code)}
        move(task, State.FAILED, self._emit, JobEvent.TASK_RETRYING, **facts)
        task.task_attempt += 1
        move(task, State.WAITING, self._emit)
        heapq.heappush(self._to_start, (time.monotonic() + delay, task.task_attempt, task.task))
        return True

    def _stop_requested(self) -> None:
        """The first request starts every task's ladder, the next ends its grace period; both may arrive together."""
        kill = self._stops.count > 1
        self._stops_seen = self._stops.count
        self._emit(JobEvent.STOP_REQUESTED, by=self._stops.by, kill=kill)
        self._end(completion.STOPPED)
        if kill:
            self._end_all_graces()

    def _end(self, verdict: completion.AttemptVerdict, ended: TaskState | None = None) -> None:
        """End the attempt with this verdict: running tasks are stopped, waiting ones never start. `ended` is a task
        that has just ended and is not completed yet."""
        if self._verdict is not None:
            return
        self._verdict = verdict
        self._to_start.clear()
        for task in self.tasks.values():
            if task is ended:
                continue
            if task.state == State.WAITING:
                self._complete(task, State.STOPPED, self._stop_code())
            elif task.state in (State.LAUNCHED, State.RUNNING):
                task.deadline = time.monotonic() + self._plan.role(task.task.role).stop.grace_sec + PATIENCE_SEC
                move(task, State.STOPPING, self._emit)
                self._backend.stop(task.task)

    def _end_all_graces(self) -> None:
        for task in self.tasks.values():
            if task.state == State.STOPPING:
                task.deadline = time.monotonic() + PATIENCE_AFTER_KILL_SEC
                self._backend.end_grace(task.task)

    def _stop_code(self) -> int:
        return STOPPED_BY_USER if self._verdict is completion.STOPPED else STOPPED_BY_COMPLETION

    def _enforce_stops(self) -> None:
        if self._verdict is None:
            return
        now = time.monotonic()
        for task in self.tasks.values():
            if task.deadline is not None and task.deadline < now:
                task.deadline = None
                self._backend.kill(task.task)


def _facts(report: Report | None, code: int) -> dict[str, Any]:
    if report is None:
        return {"code": code}
    return {
        "code": code,
        "user_exit_code": report.user_exit_code,
        "reason": report.reason,
        "message": report.message,
        "removed_bytes": report.removed_bytes,
    }
