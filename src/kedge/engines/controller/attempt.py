"""One attempt of a job: starts all tasks together and follows each to its end, until the completion policy decides."""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kedge.contract import (
    DISK_FULL,
    NOTICE,
    STOPPED_BY_COMPLETION,
    STOPPED_BY_TIME_LIMIT,
    STOPPED_BY_USER,
    Report,
    TaskTimeLimit,
    timestamp,
)
from kedge.engines.base import (
    Backend,
    Ended,
    HeldInQueue,
    HookRetrying,
    LimitReached,
    PreemptionNotice,
    ServiceEnded,
    ServiceStarted,
    StopAnnounced,
    Task,
    TaskHeld,
    TaskPlaced,
    TaskReachable,
    TaskUnreachable,
    Update,
)
from kedge.engines.controller import task_facts
from kedge.engines.controller.attempt_record import AttemptRecord
from kedge.engines.controller.holds import RunHold
from kedge.engines.controller.judge import Judge, judge
from kedge.engines.controller.start_queue import StartQueue
from kedge.engines.controller.states import Emit, TaskState, move
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.controller.time_limits import SLACK_SEC, TimeLimits, at_limit, is_of_job, reached
from kedge.plan.model import Plan
from kedge.policy import completion, retry
from kedge.runs.job_events import JobEvent
from kedge.states import State

# How long after the end of its grace period a task's supervisor may take to finish its hooks and logs.
PATIENCE_SEC = 60.0
PATIENCE_AFTER_KILL_SEC = 15.0
_LONGEST_SEC = 86_400.0  # of one wait; the kernel refuses some longer than 24 days
_STARTED = (State.LAUNCHED, State.RUNNING)
# Updates that are only recorded.
_FACTS: dict[type, JobEvent] = {
    HookRetrying: JobEvent.HOOK_RETRYING,
    ServiceStarted: JobEvent.SERVICE_STARTED,
    ServiceEnded: JobEvent.SERVICE_ENDED,
    TaskPlaced: JobEvent.TASK_PLACED,
    TaskUnreachable: JobEvent.TASK_UNREACHABLE,
    TaskReachable: JobEvent.TASK_REACHABLE,
}
_ANNOUNCED = "the job will soon be stopped from outside"


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
        limits: TimeLimits | None = None,
        hold: RunHold | None = None,
        record: AttemptRecord | None = None,
    ) -> None:
        self._record = record or AttemptRecord(plan)
        self._hold = hold or RunHold()
        self._limits = limits or TimeLimits(plan)
        self._plan, self._number, self._backend, self._stops = plan, number, backend, stops
        self._judging, self._emit, self._random = judging, emit, random
        self.tasks = self._record.tasks
        waiting = [(place, task) for place, task in enumerate(self.tasks) if self.tasks[task].state == State.WAITING]
        self._to_start = StartQueue((self._record.due.get(task, 0.0), place, task) for place, task in waiting)
        self._open = self._record.open  # tasks that have not ended for good
        self._verdict: completion.AttemptVerdict | None = None
        self._at_limit: completion.AttemptVerdict | None = None  # the verdict that the time of the run is over
        self._ladders = False  # whether a task has been asked to stop
        self._look_at = math.inf  # when a limit must be enforced here
        self.stops_seen = self._record.stops
        self._notices_seen = 0
        self._told = self._record.told

    @property
    def disk_full(self) -> bool:
        """Whether a task has ended because the disk was full."""
        return self._record.disk_full

    def run(self) -> completion.AttemptVerdict:
        if self._record.begun:
            self._take_over()
        else:
            self._emit(JobEvent.ATTEMPT_STARTED, attempt=self._number)
            self._backend.place(self._number)
        with selectors.DefaultSelector() as selector:
            selector.register(self._backend, selectors.EVENT_READ)
            selector.register(self._stops, selectors.EVENT_READ)
            while self._open or self._verdict is None:
                self._step(selector)
        return self._verdict

    def _take_over(self) -> None:
        """Go on with what an earlier controller has begun. It may have recorded more than it has done."""
        running = self._record.running
        self._backend.adopt(self._number, running)
        for name in running:
            self._start(self.tasks[name])
        self._decided()
        for task in self.tasks.values():
            if task.limit and task.state in _STARTED:
                self._stopping(task)
                self._backend.stop(task.task)
        if self.stops_seen > 1:
            self._end_all_graces()
        if self._record.released and self._hold.task:
            self._backend.warn(self._hold.task)

    def _decided(self) -> None:
        """Take up the verdict that the events contain, if there is one."""
        if verdict := self._record.verdict:
            self._at_limit = verdict if verdict.code == STOPPED_BY_TIME_LIMIT and verdict.task is None else None
            self._end(verdict)

    def take_verdict(self) -> completion.AttemptVerdict:
        """The verdict of an attempt that an earlier controller has completed."""
        self._verdict = self._record.verdict
        assert self._verdict is not None
        return self._verdict

    def abandon(self) -> completion.AttemptVerdict:
        """End an attempt whose allocation is gone, and its tasks with it; that of a task which had succeeded counts."""
        ended = [self.tasks[name] for name in self._record.running]
        for task in ended:
            move(task, State.STOPPING, self._emit)
        self._decided()
        for task in ended:
            found = self._judging.report(task, self._number)
            if found and found.exit_code == 0 and not found.stopped_by:
                task.report = found
                self._complete(task, State.SUCCEEDED, 0)
        if self._open:
            self._end(self._record.loss)
        for task in ended:
            if task.state == State.STOPPING:
                task.report = None
                self._complete(task, State.STOPPED, self._stop_code())
        assert self._verdict is not None
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
        if self._stops.count > self.stops_seen:
            self._stop_requested()
        if self._stops.notices > self._notices_seen:
            self._notices_seen = self._stops.notices
            self._warn(_ANNOUNCED)
        self._release_if_asked()
        self._enforce_limits()
        if self._verdict is not None:
            self._end_hold()
        self._enforce_stops()

    def _start_next(self) -> bool:
        if (name := self._to_start.next(time.monotonic())) is None:
            return False
        task = self.tasks[name]
        if task.state == State.WAITING:  # its time is not over
            self._record.warned.discard(name)
            move(task, State.LAUNCHED, self._emit, JobEvent.TASK_LAUNCHED)
            self._start(task)
        return True

    def _start(self, task: TaskState) -> None:
        self._backend.start(task.task, self._number, task.task_attempt, self._limits.start(task.task))
        self._look_at = min(self._look_at, self._limits.next_end([task.task]))

    def _timeout(self) -> float | None:
        """Seconds until something is due: a start, a kill, a limit, or what the backend or the judge has to do; None
        if nothing is."""
        due = [self._to_start.due, self._backend.due, self._look_at]
        if self._judging.loads_at is not None:
            due.append(self._judging.loads_at)
        if self._ladders:
            due += [task.deadline for task in self.tasks.values() if task.deadline is not None]
        return min(_LONGEST_SEC, max(0.0, min(due) - time.monotonic())) if min(due) < math.inf else None

    def _take(self, update: Update) -> None:
        task = self.tasks[update.task]
        if isinstance(update, Ended):
            task.place_lost = update.place_lost
            if self._hold.postpones(update):
                return
            was_held = update.task == self._hold.task
            self._ended(task, update.report)
            if was_held:
                self._end_hold()
        elif isinstance(update, TaskHeld):
            self._held(update)
        elif isinstance(update, HeldInQueue):
            self._limits.stood_still(update.seconds)
        elif event := _FACTS.get(type(update)):
            self._emit_facts(event, update)
        elif isinstance(update, LimitReached):
            self._limit_reached(task, update.key)
        elif isinstance(update, StopAnnounced):
            self._tell(JobEvent.STOP_ANNOUNCED, task, by=update.by, text=update.text)
        elif isinstance(update, PreemptionNotice):
            self._warn(update.text, None if self._plan.gang else update.task)
        elif task.state == State.LAUNCHED:
            move(task, State.RUNNING, self._emit)
            if update.task in self._record.warned:
                self._record.warned.remove(update.task)
                self._backend.warn(update.task)

    def _held(self, update: TaskHeld) -> None:
        """A task has failed, and its supervisor holds it. Only the first of the run stays so."""
        if self._verdict is not None or not self._hold.begin(update.task):
            self._backend.warn(update.task)
            return
        until = timestamp(time.time_ns() + int(update.hold_sec * 1e9))
        task, facts = update.task, {"code": update.code, "message": update.message, "until": until}
        self._emit(JobEvent.TASK_HELD, role=task.role, index=task.task_index, run=self._hold.run, **facts)

    def _release_if_asked(self) -> None:
        if self._stops.releases > self._hold.releases_seen:
            self._hold.releases_seen = self._stops.releases
            if held := self._hold.task:
                self._emit(JobEvent.TASK_RELEASED, role=held.role, index=held.task_index)
                self._backend.warn(held)

    def _end_hold(self) -> None:
        """Nothing is held any more: deal with the tasks that have ended in the meantime."""
        for update in self._hold.over():
            self._ended(self.tasks[update.task], update.report)

    def _emit_facts(self, event: JobEvent, update: Update) -> None:
        task, facts = update.task, update._asdict()
        del facts["task"]
        self._emit(event, role=task.role, index=task.task_index, **facts)

    def _ended(self, task: TaskState, report: Report) -> None:
        if task.limit and report.stopped_by and not report.time_limit:
            report = at_limit(report, task.limit)
        task.report, task.deadline = report, None
        if is_of_job(report.time_limit) and self._limits.job_is_over():
            self._end_at_limit(ended=task)
            if task.state in _STARTED:
                move(task, State.STOPPING, self._emit)
        if self._verdict is not None and self._was_stopped(task, report):
            self._complete(task, State.STOPPED, self._stop_code())
        elif report.exit_code == 0:
            self._complete(task, State.SUCCEEDED, 0)
        elif not self._retried(task, report):
            self._complete(task, State.FAILED, report.exit_code)

    def _facts(self, task: TaskState, code: int) -> dict[str, Any]:
        return task_facts.of_end(task, code, self._judging, self._number)

    def _was_stopped(self, task: TaskState, report: Report) -> bool:
        """Whether the task has ended because the attempt was over."""
        at_job_limit = self._verdict is self._at_limit and is_of_job(report.time_limit)
        was_asked = task.state == State.STOPPING and task.limit is None
        return at_job_limit or (was_asked and (report.stopped_by or report.time_limit) is not None)

    def _complete(self, task: TaskState, state: State, code: int) -> None:
        """Record that the task has ended for good, and check whether that decides the attempt."""
        facts = self._facts(task, code) | (task.retries.facts() if state == State.FAILED else {})
        succeeded = state == State.SUCCEEDED
        move(task, state, self._emit, JobEvent.TASK_COMPLETED, state=state, succeeded=succeeded, **facts)
        self._open -= 1
        verdict = self._record.count(task, code)
        if verdict is not None:
            self._end(verdict)

    def _retried(self, task: TaskState, report: Report) -> bool:
        """Retry the task alone if the job has no gang allocation and the policy allows it. Returns whether it does."""
        if self._plan.gang or self._verdict is not None or report.reason == DISK_FULL or task.place_lost:
            return False
        role = self._plan.role(task.task.role)
        policy = retry.Policy(True, role.task_retry_count)
        judged = judge([replace(task, state=State.FAILED)])
        failure = self._judging.failure(judged, report.exit_code, self._number, task, task.history)
        delay = task.retries.again(policy, self._plan.retry, failure, self._random, job=False)
        if delay is None:
            return False
        facts = {"delay_sec": round(delay, 3), **task.retries.facts(), **self._facts(task, report.exit_code)}
        facts |= task.retries.counts() | task.history.facts()
        move(task, State.FAILED, self._emit, JobEvent.TASK_RETRYING, **facts)
        task.task_attempt += 1
        task.limit = None
        move(task, State.WAITING, self._emit)
        self._to_start.add(time.monotonic() + delay, task.task_attempt, task.task)
        return True

    def _limit_reached(self, task: TaskState, key: str) -> None:
        """The task's supervisor stops it at a time limit."""
        if is_of_job(key):
            if self._limits.job_is_over():
                self._end_at_limit()
        elif self._verdict is None and task.state in _STARTED and (limit := self._limits.of_task(task.task, key)):
            self._at_own_limit(task, limit)
            self._stopping(task)

    def _enforce_limits(self) -> None:
        """Stop what its supervisor has not stopped at a limit: a task that waits, or whose supervisor is not there."""
        if self._look_at > time.monotonic():
            return
        if self._verdict is not None:
            self._look_at = math.inf
            self._stop_the_rest()
            return
        if self._limits.job_left() <= -SLACK_SEC:
            self._end_at_limit()
            return
        running = [
            task
            for task in self.tasks.values()
            if task.state in (State.WAITING, *_STARTED) and not self._hold.has_ended(task.task)
        ]
        for task in running:
            if (limit := self._limits.passed(task.task)) and self._verdict is None:  # the task before may have ended it
                self._stop_at_limit(task, limit)
        self._look_at = self._limits.next_end(task.task for task in running if not task.limit)

    def _stop_the_rest(self) -> None:
        """Stop what has not reached the limit of the run by itself."""
        if self._verdict is self._at_limit:
            for task in self.tasks.values():
                if task.state == State.STOPPING and not task.limit:
                    self._backend.stop(task.task)

    def _stop_at_limit(self, task: TaskState, limit: TaskTimeLimit) -> None:
        self._at_own_limit(task, limit)
        if task.state != State.WAITING:
            self._stopping(task)
            self._backend.stop(task.task)
        elif task.report:  # it waits for a retry, for which no time is left
            task.report = at_limit(task.report, limit)
            self._complete(task, State.FAILED, task.report.exit_code)

    def _at_own_limit(self, task: TaskState, limit: TaskTimeLimit) -> None:
        self._tell(JobEvent.TIME_LIMIT_REACHED, task, by=limit.key, text=reached(limit))
        self._emit(JobEvent.TASK_STOPPING, role=task.task.role, index=task.task.task_index, by=limit.key)
        task.limit = limit

    def _stopping(self, task: TaskState) -> None:
        self._ladders = True
        task.deadline = time.monotonic() + self._plan.role(task.task.role).stop.grace_sec + PATIENCE_SEC
        move(task, State.STOPPING, self._emit)

    def _end_at_limit(self, ended: TaskState | None = None) -> None:
        """The time of the whole run is over."""
        if self._verdict is None and self._limits.of_job:
            limit = self._limits.of_job
            self._emit(JobEvent.TIME_LIMIT_REACHED, by=limit.key, text=reached(limit), message=limit.message)
            self._at_limit = completion.at_time_limit(limit.message)
            self._end(self._at_limit, ended=ended)

    def _tell(self, event: JobEvent, task: TaskState, *, by: str, text: str) -> None:
        """Emit an event about a task; of many tasks with the same, only about the first."""
        if f"{event} {by}" not in self._told:
            self._told.add(f"{event} {by}")
            self._emit(event, role=task.task.role, index=task.task.task_index, by=by, text=text)

    def _warn(self, text: str, only: Task | None = None) -> None:
        """All tasks, or only this one, will be stopped soon: their hooks before a stop run now, where a command
        runs."""
        self._told.add(f"{JobEvent.STOP_ANNOUNCED} {NOTICE}")  # the supervisors announce it, too
        place = {"role": only.role, "index": only.task_index} if only else {}
        self._emit(JobEvent.STOP_ANNOUNCED, **place, by=NOTICE, text=text)
        for task in [only] if only else self.tasks:
            if self.tasks[task].state == State.RUNNING:
                self._backend.warn(task)
            elif self.tasks[task].state == State.LAUNCHED:
                self._record.warned.add(task)  # its command may run already: the backend has not said so yet

    def _stop_requested(self) -> None:
        """The first request starts every task's ladder, the next ends its grace period; both may arrive together."""
        kill = self._stops.count > 1
        self.stops_seen = self._stops.count
        self._emit(JobEvent.STOP_REQUESTED, **self._stops.facts())
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
        by_themselves = verdict is self._at_limit and self._limits.job_left() > -SLACK_SEC
        if by_themselves:
            self._look_at = time.monotonic() + SLACK_SEC
        for task in self.tasks.values():
            if task is ended or self._hold.has_ended(task.task):
                continue
            if task.state == State.WAITING:
                self._complete(task, State.STOPPED, self._stop_code())
            elif task.state in (State.LAUNCHED, State.RUNNING):
                self._stopping(task)
                if not by_themselves:
                    self._backend.stop(task.task)

    def _end_all_graces(self) -> None:
        for task in self.tasks.values():
            if task.state == State.STOPPING:
                task.deadline = time.monotonic() + PATIENCE_AFTER_KILL_SEC
                self._backend.end_grace(task.task)

    def _stop_code(self) -> int:
        if self._verdict is self._at_limit:
            return STOPPED_BY_TIME_LIMIT
        if self._record.lost and self._verdict == self._record.loss:
            return self._record.lost.code
        return STOPPED_BY_USER if self._verdict is completion.STOPPED else STOPPED_BY_COMPLETION

    def _enforce_stops(self) -> None:
        if not self._ladders:
            return
        now = time.monotonic()
        for task in self.tasks.values():
            if task.deadline is not None and task.deadline < now:
                task.deadline = None
                self._backend.kill(task.task)
