"""From the status of a Framework to events of the run, pure: what FrameworkController has done since the latest event.

Any client may do this at any time: what is recorded is not recorded again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kedge.contract import Report, converted_role
from kedge.engines.kubernetes.framework.progress import FrameworkProgress, FrameworkTask
from kedge.runs.events import Event
from kedge.runs.job_events import JobEvent
from kedge.states import FINAL, State

CONTROLLER = "FrameworkController"
_UNSEEN = "it ended while no command of kedge looked, and FrameworkController keeps only the latest attempt"
_Key = tuple[str, int]


class NewEvent(NamedTuple):
    """An event that is to be recorded. `sync`: also if the machine crashes then."""

    name: JobEvent
    facts: Mapping[str, Any]
    sync: bool = False


class TaskEnding(NamedTuple):
    """The end of a task attempt, whose report is made when its log is here."""

    role: str
    task: FrameworkTask
    job_attempt: int


ReportOf = Callable[[TaskEnding], Report]


class KnownEvents:
    """What the recorded events say of the latest attempt of the job. `roles` are the names of the job file by those of
    the Framework; `reports` those of the tasks that have ended, by role and index."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.attempt = -1
        self.over = False
        self.stopped_by = ""
        self.roles: dict[str, str] = {}
        self.launched: dict[_Key, int] = {}
        self.ended: set[tuple[str, int, int]] = set()
        self.reports: dict[_Key, tuple[State, Report | None]] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """One more event has been recorded."""
        key = event.get("role", ""), event.get("index", 0)
        match event.get("event"):
            case JobEvent.JOB_SUBMITTED:
                self.roles = {converted_role(name): name for name in event.get("roles", {})}
            case JobEvent.ATTEMPT_STARTED:
                self.attempt = event.get("attempt", 0)
                self.launched, self.ended, self.reports = {}, set(), {}
            case JobEvent.TASK_LAUNCHED:
                self.launched[key] = event.get("task_attempt", 0)
            case JobEvent.TASK_COMPLETED | JobEvent.TASK_RETRYING:
                self.ended.add((*key, event.get("task_attempt", 0)))
                self.reports[key] = State(event.get("state") or State.FAILED), _report(event)
            case JobEvent.STOP_REQUESTED:
                self.stopped_by = self.stopped_by or event.get("by", "")
            case JobEvent.JOB_COMPLETED:
                self.over = True

    def has_ended(self, role: str, task: FrameworkTask, attempt: int) -> bool:
        """Whether the end of this attempt of a task is recorded."""
        return attempt == self.attempt and (role, task.task_index, task.attempt) in self.ended


def _report(event: Event) -> Report | None:
    data = event.get("report")
    try:
        return Report(**data) if isinstance(data, dict) else None
    except TypeError:
        return None


def of_tasks(known: KnownEvents, found: FrameworkProgress, report_of: ReportOf) -> Iterator[NewEvent]:
    """What has happened to the job's attempts and tasks. `known` takes each event before the next one is asked for."""
    if known.over or not found.seen:
        return
    if known.attempt < found.attempt:
        yield from _next_attempt(known, found)
    for task in found.tasks:
        if role := known.roles.get(task.role):
            yield from _of_task(known, role, task, found.attempt, report_of)


def _next_attempt(known: KnownEvents, found: FrameworkProgress) -> Iterator[NewEvent]:
    if known.attempt >= 0:
        text = f"{CONTROLLER} tries the job again"
        facts = {"attempt": known.attempt, "verdict": State.FAILED, "text": _UNSEEN, "code": None, "root": None}
        yield NewEvent(JobEvent.ATTEMPT_COMPLETED, facts, True)
        facts = {"attempt": found.attempt - 1, "delay_sec": 0.0, "why": text, "decided_by": CONTROLLER}
        yield NewEvent(JobEvent.JOB_RETRYING, facts, True)
    yield NewEvent(JobEvent.ATTEMPT_STARTED, {"attempt": found.attempt})


def _of_task(
    known: KnownEvents, role: str, task: FrameworkTask, attempt: int, report_of: ReportOf
) -> Iterator[NewEvent]:
    key, place = (role, task.task_index), {"role": role, "index": task.task_index}
    before = known.launched.get(key, -1)
    if before < task.attempt and _has_begun(task):
        if before >= 0 and (*key, before) not in known.ended:
            yield NewEvent(JobEvent.TASK_RETRYING, {**place, "task_attempt": before, **_unseen()}, True)
        yield NewEvent(JobEvent.TASK_LAUNCHED, {**place, "task_attempt": task.attempt})
        if task.node or task.address:
            yield NewEvent(JobEvent.TASK_PLACED, {**place, "node": task.node, "address": task.address})
    if (*key, task.attempt) not in known.ended and _has_ended(task):
        yield _end(place, task, report_of(TaskEnding(role, task, attempt)))


def _has_begun(task: FrameworkTask) -> bool:
    """Whether its command may have run, or it failed before."""
    return bool(task.started) or task.attempt_state in (State.RUNNING, State.SUCCEEDED, State.FAILED)


def _has_ended(task: FrameworkTask) -> bool:
    """Whether its attempt has ended, and it is known what follows."""
    return task.attempt_state in FINAL and (task.state in FINAL or task.retrying)


def _unseen() -> dict[str, Any]:
    return {
        "code": None, "user_exit_code": None, "reason": None, "message": _UNSEEN, "delay_sec": 0.0,
        "why": f"{CONTROLLER} tries it again", "decided_by": CONTROLLER,
    }  # fmt: skip


def _end(place: Mapping[str, Any], task: FrameworkTask, report: Report) -> NewEvent:
    facts = {
        **place, "task_attempt": task.attempt, "code": report.exit_code, "user_exit_code": report.user_exit_code,
        "reason": report.reason, "message": report.message, "report": report._asdict(),
    }  # fmt: skip
    if task.retrying:
        more = {"delay_sec": 0.0, "why": f"{CONTROLLER} tries it again", "decided_by": CONTROLLER}
        return NewEvent(JobEvent.TASK_RETRYING, facts | more, True)
    state = task.attempt_state
    return NewEvent(JobEvent.TASK_COMPLETED, {**facts, "state": state, "succeeded": state == State.SUCCEEDED})
