"""Makes the progress of a job from its events, for a second controller: the first one was killed at any instant.

Each decision is recorded before it takes effect. So what the events contain has been decided, though perhaps not done;
what they do not contain happens again: the backend reports it again, or it is decided now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from kedge.contract import NOTICE, Report
from kedge.engines.base import Task
from kedge.engines.controller import reports
from kedge.engines.controller.allocation import FIRST, Allocation
from kedge.engines.controller.attempt_record import AttemptRecord
from kedge.engines.controller.progress import Progress, Restart, Stage, beginning
from kedge.engines.controller.retries import Retries
from kedge.engines.controller.states import History, TaskState
from kedge.engines.controller.stop_requests import StopFacts
from kedge.plan.model import Plan
from kedge.policy import completion
from kedge.policy.completion import AttemptVerdict
from kedge.runs import events, task_reports
from kedge.runs.events import Event
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import FINAL, State

_MALFORMED = (KeyError, TypeError, ValueError)  # of an event that no controller has written


def read(plan: Plan, run: Run, allocation: Allocation = FIRST) -> Progress | None:
    """How far earlier controllers have come with a job that has not ended; None if there were none. To be called before
    this controller gives any sign of life.

    `allocation` is that of this controller. If the earlier one had another, the tasks of an unfinished attempt are gone
    with it.
    """
    found = list(events.read(run.events))
    fold = _ProgressFold(plan, run, latest=max((event.get("attempt", 0) for event in found), default=0))
    for event in found:
        fold.take(event)
    return fold.progress(allocation, _last_heartbeat(run)) if fold.begun or allocation.number else None


class _ProgressFold:
    """`latest` is the number of the latest attempt, the only one whose reports are read."""

    def __init__(self, plan: Plan, run: Run, latest: int) -> None:
        self._plan, self._run, self._latest = plan, run, latest
        self._made = beginning(plan, run)
        self._record = self._made.record
        self._launched: dict[Task, int] = {}  # the latest attempt of each task that has begun
        self._last = 0.0  # the time of the latest event
        self._allocation = 0
        self.begun = False
        # The difference between the two clocks. That of events may be set; then waits are shorter or longer.
        self._to_monotonic = time.monotonic() - time.time()

    def take(self, event: Event) -> None:
        if handler := _HANDLERS.get(event["event"]):
            try:
                self._last = datetime.fromisoformat(event["time"]).timestamp()
                handler(self, event)
            except _MALFORMED:
                return
            self.begun = True

    def progress(self, allocation: Allocation, heartbeat: float) -> Progress:
        made, record = self._made, self._record
        adopt = allocation.number <= self._allocation
        waited = 0.0
        if not adopt:
            last = max(self._last, heartbeat)
            waited = round(max(0.0, time.time() - last), 3) if last else 0.0
            self._requeued(allocation, waited)
        allocation = allocation._replace(number=max(allocation.number, self._allocation))
        made.restart = Restart(allocation, adopt and not record.lost, waited)
        return made

    def _requeued(self, allocation: Allocation, waited: float) -> None:
        self._made.limits.stood_still(waited)
        if self._record.begun and self._made.stage == Stage.BEGINS:
            self._record.lost = allocation

    def restarted(self, event: Event) -> None:
        if not event["adopts"] and event["allocation"] > self._allocation:
            self._requeued(Allocation(event["allocation"], event["cause"], event["why"]), event["waited_sec"])
            self._allocation = event["allocation"]

    def stood_still(self, event: Event) -> None:
        self._made.limits.stood_still(float(event["waited_sec"]))

    def attempt_started(self, event: Event) -> None:
        if not self._record.begun and event["attempt"] == 0:
            self._made.limits.began(self._moment())
        self._made.number, self._made.stage = event["attempt"], Stage.BEGINS
        self._made.asked_for_time = False
        self._made.record = self._record = AttemptRecord(self._plan)
        self._record.begun = True
        self._launched.clear()

    def launched(self, event: Event) -> None:
        task = self._task(event)
        task.state, task.task_attempt = State.LAUNCHED, event["task_attempt"]
        self._launched[task.task] = task.task_attempt
        self._record.warned.discard(task.task)
        self._made.limits.task_began(task.task, self._moment())

    def retrying(self, event: Event) -> None:
        task = self._task(event)
        task.report = self._report(task, event)
        task.retries, task.history = Retries.of_counts(event), History.of_facts(event)
        task.state, task.limit, task.task_attempt = State.WAITING, None, event["task_attempt"] + 1
        self._record.due[task.task] = self._moment() + event["delay_sec"]
        self._hold_over(task.task)

    def completed(self, event: Event) -> None:
        task = self._task(event)
        if task.state in FINAL:
            return
        task.report = self._report(task, event)
        task.state = State(event["state"])
        verdict = self._record.count(task, event["code"])
        self._record.verdict = self._record.verdict or verdict
        self._hold_over(task.task)

    def stopping(self, event: Event) -> None:
        task = self._task(event)
        role = self._plan.role(task.task.role)
        limits = (limit for limit in (role.time_limit, role.attempt_time_limit) if limit)
        task.limit = next((limit for limit in limits if limit.key == event["by"]), None)

    def limit_reached(self, event: Event) -> None:
        self._record.told.add(f"{event['event']} {event['by']}")
        if "role" not in event and self._made.stage == Stage.BEGINS:
            self._record.verdict = self._record.verdict or completion.at_time_limit(event["message"])

    def announced(self, event: Event) -> None:
        self._record.told.add(f"{event['event']} {event['by']}")
        if event["by"] == NOTICE:
            only = {self._task(event).task} if "role" in event else set(self._record.tasks)
            self._record.warned |= only & set(self._record.running)

    def held(self, event: Event) -> None:
        task = self._task(event).task
        self._made.hold.begin(task)
        self._record.warned.discard(task)  # a warning would end the hold
        self._record.released = False

    def released(self, event: Event) -> None:
        self._record.released = self._made.hold.task is not None

    def stop_requested(self, event: Event) -> None:
        self._made.stops = StopFacts(event["by"], event["kill"], event["interrupted"])
        if self._made.stage == Stage.BEGINS:
            self._record.verdict = self._record.verdict or completion.STOPPED

    def attempt_completed(self, event: Event) -> None:
        self._made.stage = Stage.COMPLETED
        outcome, code = State(event["verdict"]), event["code"]
        self._record.verdict = self._record.verdict or AttemptVerdict(outcome, None, code, event["trigger"])
        self._hold_over(self._made.hold.task)

    def job_retrying(self, event: Event) -> None:
        self._made.stage = Stage.RETRYING
        self._made.retries, self._made.history = Retries.of_counts(event), History.of_facts(event)
        self._made.retry_due = self._moment() + event["delay_sec"]

    def allocation_requested(self, event: Event) -> None:
        self._made.asked_for_time = True

    def _hold_over(self, task: Task | None) -> None:
        if task and task == self._made.hold.task:
            self._made.hold.over()
            self._record.released = False

    def _task(self, event: Event) -> TaskState:
        return self._record.tasks[Task(event["role"], event["index"])]

    def _report(self, task: TaskState, event: Event) -> Report | None:
        """The report of the attempt that an event ends."""
        if "report" in event:
            return task_reports.report(event["report"])
        if "reason" not in event or task.task not in self._launched or self._made.number != self._latest:
            return task.report
        return reports.stored(self._run, task.task, self._made.number, self._launched[task.task])

    def _moment(self) -> float:
        """The time of the latest event by time.monotonic()."""
        return self._last + self._to_monotonic


def _last_heartbeat(run: Run) -> float:
    """When an earlier controller has given its last sign of life, in seconds since 1970; 0 if that is not known."""
    found = run.cluster.object(run.cluster.heartbeat).get("time")
    return float(found) if isinstance(found, int | float) else 0.0


_HANDLERS: dict[str, Callable[[_ProgressFold, Event], None]] = {
    JobEvent.CONTROLLER_RESTARTED: _ProgressFold.restarted,
    JobEvent.TIME_STOOD_STILL: _ProgressFold.stood_still,
    JobEvent.ATTEMPT_STARTED: _ProgressFold.attempt_started,
    JobEvent.TASK_LAUNCHED: _ProgressFold.launched,
    JobEvent.TASK_RETRYING: _ProgressFold.retrying,
    JobEvent.TASK_COMPLETED: _ProgressFold.completed,
    JobEvent.TASK_STOPPING: _ProgressFold.stopping,
    JobEvent.TASK_HELD: _ProgressFold.held,
    JobEvent.TASK_RELEASED: _ProgressFold.released,
    JobEvent.TIME_LIMIT_REACHED: _ProgressFold.limit_reached,
    JobEvent.STOP_ANNOUNCED: _ProgressFold.announced,
    JobEvent.STOP_REQUESTED: _ProgressFold.stop_requested,
    JobEvent.ATTEMPT_COMPLETED: _ProgressFold.attempt_completed,
    JobEvent.JOB_RETRYING: _ProgressFold.job_retrying,
    JobEvent.ALLOCATION_REQUESTED: _ProgressFold.allocation_requested,
}
