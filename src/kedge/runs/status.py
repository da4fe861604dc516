"""The status of a run, derived only from its event logs and its lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kedge.contract import (
    EVENTS_FILE,
    FINISHED,
    STOPPED_BY_COMPLETION,
    STOPPED_BY_TIME_LIMIT,
    STOPPED_BY_USER,
    duration_text,
)
from kedge.errors import InputError
from kedge.quick_dataclasses import dataclass
from kedge.runs import events as logs
from kedge.runs import liveness, task_reports
from kedge.runs.events import Event
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase
from kedge.states import FINAL, State

_MOST_RESTARTS = 3  # that are shown
_SECONDS = len("2026-01-01T00:00:00")  # a time without its fractions, which are UTC
_STOP_CODES = (STOPPED_BY_USER, STOPPED_BY_COMPLETION, STOPPED_BY_TIME_LIMIT)


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A program beside the command of a task's latest attempt; `address` is where it can be reached, if that is
    known."""

    name: str
    address: str | None
    running: bool


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task in the latest job attempt. `attempts` counts its launches in that attempt, `tries` those in the whole
    run. `code` is the container's exit code, `exit_code` that of the user's command. `started` and `ended` are times of
    the latest task attempt in the format of events; `reason` and `message` are those of its Report. In a cluster,
    `node` is where the latest attempt runs or ran; `unreachable` says for how long its agent has been silent, if so;
    `waits_for` is why an attempt that was launched does not run yet: empty if that is not known, None if it does."""

    role: str
    index: int
    state: State = State.WAITING
    attempts: int = 0
    tries: int = 0
    code: int | None = None
    exit_code: int | None = None
    started: str | None = None
    ended: str | None = None
    reason: str | None = None
    message: str | None = None
    services: tuple[ServiceStatus, ...] = ()
    held_until: str | None = None
    node: str | None = None
    unreachable: str | None = None
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The current status of a run. `code` and `text` describe its end, `exit_code` is
    that of `kedge run`; `attempt` counts job attempts from 0; `cause` is
    the root cause of the latest failed attempt; `notes` are what else a user should know; `left` names processes that
    cannot be ended. In a cluster, `cluster_job` is the job's number there; while that, or what all its tasks need, has
    to wait, `pending` says why, and `expected_start` when the cluster expects to start it, if it does; `unanswered` is
    why its state in the cluster is unknown."""

    state: State
    attempt: int
    tasks: tuple[TaskStatus, ...]
    submitted: str | None = None
    ended: str | None = None
    code: int | None = None
    exit_code: int | None = None
    text: str | None = None
    cause: str | None = None
    notes: tuple[str, ...] = ()
    left: str | None = None
    cluster_job: str | None = None
    pending: str | None = None
    expected_start: str | None = None
    unanswered: str | None = None

    @property
    def held(self) -> TaskStatus | None:
        """The task that is held, if any."""
        return next((task for task in self.tasks if task.held_until), None)

    @property
    def failed_tasks(self) -> int:
        """The number of tasks that failed and are not retried; a completion policy may still let the job succeed."""
        return sum(task.state == State.FAILED for task in self.tasks)


def read(run: Run) -> JobStatus:
    """The current status of a run. Never fails on files that a crash or a running controller left half-written, or that
    tasks have replaced."""
    # The lock first: then everything that a controller wrote before it released the lock is read.
    held = liveness.is_controlled(run)
    status = fold(logs.read(run.events))
    if run.cluster.exists:
        status = _with_answer(run, status)
    if held:
        return status
    if damage := _damage(run, status):
        return replace(status, state=State.DAMAGED, text=damage)
    if status.state in FINAL:
        return status
    return replace(
        status, state=State.LOST, tasks=tuple(_last_known(run, status.attempt, task) for task in status.tasks)
    )


def _with_answer(run: Run, status: JobStatus) -> JobStatus:
    """The status with what the scheduler of a cluster reports, unless the controller itself does."""
    answer = liveness.last_answer(run.cluster)
    job = answer.job or run.cluster.object(run.cluster.job).get("job")  # nobody may have asked yet
    status = replace(status, cluster_job=str(job) if job else None)
    if status.state in FINAL or liveness.is_fresh(run.cluster):
        return status
    if answer.state == JobPhase.PENDING:
        return replace(status, pending=answer.text or answer.reason, expected_start=answer.start or None)
    if answer.state == JobPhase.RUNNING:
        return replace(status, notes=(*status.notes, *_of_running(run, answer.text)))
    if answer.state == JobPhase.UNKNOWN and answer.text:
        note = f"its state in the cluster is unknown: {answer.text}"
        return replace(status, notes=(*status.notes, note), unanswered=answer.text)
    return status


def _of_running(run: Run, text: str) -> Iterator[str]:
    """What a user should know of a job that has its allocation, but whose controller is silent."""
    if text:
        yield f"the state of the job in the cluster: {text}"
    elif silent := liveness.silent_sec(run.cluster):
        since = duration_text(round(silent))
        yield f"its controller has been silent for {since}; if its node has failed, that is noticed within minutes"


def _damage(run: Run, status: JobStatus) -> str:
    """Which file of a run cannot be read, and why; empty if all can, or the run does not exist."""
    try:
        damage = run.info().damage
    except InputError:  # the run is being made, or was removed
        return ""
    return damage or ("" if status.submitted else f"its {EVENTS_FILE} is damaged or gone")


def fold(events: Iterable[Event]) -> JobStatus:
    """The status that results from a controller's events. Unknown and incomplete events change nothing, nor do events
    after the job's end."""
    fold = _StatusFold()
    for event in events:
        if handler := _HANDLERS.get(event.get("event", "")):
            handler(fold, event)
        if fold.status.state in FINAL:
            break
    tasks = list(fold.tasks.values())
    if fold.status.state in FINAL:  # the others were never launched, or their allocation ended with them
        tasks = [task if task.state in FINAL else _left_open(task, fold.status) for task in tasks]
    return replace(
        fold.status,
        tasks=tuple(tasks),
        notes=(*fold.status.notes, *_some(fold.restarts)),
        pending=_pending(tasks) if fold.at_barrier and fold.status.state == State.WAITING else None,
    )


def _left_open(task: TaskStatus, job: JobStatus) -> TaskStatus:
    """A task whose end is not recorded, although that of the job is."""
    return replace(task, state=State.STOPPED, ended=task.ended or (job.ended if task.started else None))


def _pending(tasks: list[TaskStatus]) -> str | None:
    """Why tasks wait for each other: the reason of the first one that is missing."""
    missing = [task for task in tasks if task.waits_for]
    if not missing:
        return None
    name = f"{missing[0].role}:{missing[0].index}: " if len(tasks) > 1 else ""
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    return f"{name}{missing[0].waits_for}{more}"


def _some(notes: list[str]) -> list[str]:
    """The latest restarts, and the number of the others."""
    others = len(notes) - _MOST_RESTARTS
    if others <= 0:
        return notes
    return [f"{others} earlier restart{'s are' if others > 1 else ' is'} in {EVENTS_FILE}", *notes[-_MOST_RESTARTS:]]


class _StatusFold:
    def __init__(self) -> None:
        self.status = JobStatus(State.WAITING, 0, ())
        self.tasks: dict[tuple[str, int], TaskStatus] = {}
        self.restarts: list[str] = []  # of the controller
        self.at_barrier = False  # all tasks wait for each other
        self.own_places = False  # further attempts of tasks wait for places of their own

    def submitted(self, event: Event) -> None:
        for role, instances in event.get("roles", {}).items():
            for index in range(instances):
                self.tasks[role, index] = TaskStatus(role, index)
        self.status = replace(self.status, submitted=event.get("time"))

    def attempt_started(self, event: Event) -> None:
        self.tasks = {key: TaskStatus(*key, tries=task.tries) for key, task in self.tasks.items()}
        self.at_barrier = self.own_places = False
        self._job(State.RUNNING, attempt=event.get("attempt", 0))

    def barrier_begun(self, event: Event) -> None:
        self.at_barrier, self.own_places = True, event.get("own_places") is True
        self._job(State.WAITING)

    def barrier_passed(self, event: Event) -> None:
        self.at_barrier = False
        self.tasks = {key: _began(task) for key, task in self.tasks.items()}
        self._job(State.RUNNING)

    def task_waiting(self, event: Event) -> None:
        task, text = self._task(event), event.get("text")
        if task.waits_for is not None:
            self._set(replace(task, waits_for=str(text)) if text else _began(task))

    def launched(self, event: Event) -> None:
        task = self._task(event)
        attempts = event.get("task_attempt", task.attempts) + 1
        started = event.get("time")
        waits = self.at_barrier or (self.own_places and attempts > 1)
        node = None if self.own_places and attempts > 1 else task.node
        now = TaskStatus(task.role, task.index, State.RUNNING, attempts, task.tries + 1, started=started, node=node)
        self._set(replace(now, state=State.WAITING, waits_for="") if waits else now)

    def completed(self, event: Event) -> None:
        stopped = event.get("code") in _STOP_CODES  # older versions did not record the state
        state = State.SUCCEEDED if event.get("succeeded") else State.STOPPED if stopped else State.FAILED
        self._ended(event, State(event["state"]) if event.get("state") in FINAL else state)

    def task_retrying(self, event: Event) -> None:
        self._ended(event, State.WAITING)

    def task_held(self, event: Event) -> None:
        task, until = self._task(event), event.get("until", "")
        if not logs.is_time(until):
            return
        code, message, ended = event.get("code"), event.get("message"), event.get("time")
        self._set(replace(task, held_until=until, exit_code=code, message=message, ended=ended))

    def task_placed(self, event: Event) -> None:
        self._set(replace(self._task(event), node=event.get("node")))

    def task_unreachable(self, event: Event) -> None:
        self._set(replace(self._task(event), unreachable=event.get("text") or ""))

    def task_reachable(self, event: Event) -> None:
        self._set(replace(self._task(event), unreachable=None))

    def service_started(self, event: Event) -> None:
        service = ServiceStatus(event.get("name", ""), event.get("address"), running=True)
        task = self._task(event)
        others = (each for each in task.services if each.name != service.name)
        self._set(replace(task, services=(*others, service)))

    def service_ended(self, event: Event) -> None:
        task = self._task(event)
        self._set(replace(task, services=_ended(task.services, event.get("name"))))

    def attempt_completed(self, event: Event) -> None:
        self.status = replace(self.status, cause=(event.get("root") or {}).get("cause"))

    def job_retrying(self, event: Event) -> None:
        self._job(State.WAITING)

    def stop_requested(self, event: Event) -> None:
        self._job(State.STOPPING)

    def time_limit_reached(self, event: Event) -> None:
        if event.get("role") is None:  # it is the limit of the run
            self._job(State.STOPPING)

    def note(self, event: Event) -> None:
        if event.get("in_summary"):
            self.note_in_summary(event)

    def note_in_summary(self, event: Event) -> None:
        self.status = replace(self.status, notes=(*self.status.notes, str(event.get("text"))))

    def controller_restarted(self, event: Event) -> None:
        self.restarts.append(f"{event.get('text')} ({event.get('time', '')[:_SECONDS]}Z)")

    def processes_left(self, event: Event) -> None:
        self.note_in_summary(event)
        self.status = replace(self.status, left=str(event.get("text")))

    def job_completed(self, event: Event) -> None:
        state = event.get("state")
        self.status = replace(
            self.status,
            state=State(state) if state in FINAL else State.FAILED,
            ended=event.get("time"),
            code=event.get("code"),
            exit_code=event.get("exit_code"),
            text=event.get("text"),
        )

    def _job(self, state: State, **changes: Any) -> None:
        # Once a stop was requested, the job is stopping until it has ended.
        self.status = replace(
            self.status, state=State.STOPPING if self.status.state == State.STOPPING else state, **changes
        )

    def _task(self, event: Event) -> TaskStatus:
        key = event.get("role", ""), event.get("index", 0)
        return self.tasks.get(key) or TaskStatus(*key)

    def _ended(self, event: Event, state: State) -> None:
        task = self._task(event)
        self._set(
            replace(
                task,
                state=state,
                code=event.get("code", task.code),
                exit_code=event.get("user_exit_code", task.exit_code),
                reason=event.get("reason", task.reason),
                message=event.get("message", task.message),
                ended=event.get("time") if _is_launched(task) and not task.held_until else task.ended,
                held_until=None,
                unreachable=None,
                waits_for=None,
                services=_ended(task.services),
            )
        )

    def _set(self, task: TaskStatus) -> None:
        self.tasks[task.role, task.index] = task


def _began(task: TaskStatus) -> TaskStatus:
    """The task when it waits for nothing any more."""
    return task if task.waits_for is None else replace(task, state=State.RUNNING, waits_for=None)


def _is_launched(task: TaskStatus) -> bool:
    return task.state == State.RUNNING or task.waits_for is not None


def _ended(services: tuple[ServiceStatus, ...], name: str | None = None) -> tuple[ServiceStatus, ...]:
    """The services after the end of the one with this name, or of all."""
    return tuple(replace(each, running=False) if name in (None, each.name) else each for each in services)


_HANDLERS: dict[str, Callable[[_StatusFold, Event], None]] = {
    JobEvent.JOB_SUBMITTED: _StatusFold.submitted,
    JobEvent.ATTEMPT_STARTED: _StatusFold.attempt_started,
    JobEvent.BARRIER_BEGUN: _StatusFold.barrier_begun,
    JobEvent.BARRIER_PASSED: _StatusFold.barrier_passed,
    JobEvent.TASK_WAITING: _StatusFold.task_waiting,
    JobEvent.TASK_LAUNCHED: _StatusFold.launched,
    JobEvent.TASK_COMPLETED: _StatusFold.completed,
    JobEvent.TASK_RETRYING: _StatusFold.task_retrying,
    JobEvent.ATTEMPT_COMPLETED: _StatusFold.attempt_completed,
    JobEvent.JOB_RETRYING: _StatusFold.job_retrying,
    JobEvent.TASK_HELD: _StatusFold.task_held,
    JobEvent.TASK_PLACED: _StatusFold.task_placed,
    JobEvent.TASK_UNREACHABLE: _StatusFold.task_unreachable,
    JobEvent.TASK_REACHABLE: _StatusFold.task_reachable,
    JobEvent.SERVICE_STARTED: _StatusFold.service_started,
    JobEvent.SERVICE_ENDED: _StatusFold.service_ended,
    JobEvent.STOP_REQUESTED: _StatusFold.stop_requested,
    JobEvent.TIME_LIMIT_REACHED: _StatusFold.time_limit_reached,
    JobEvent.NOTE: _StatusFold.note,
    "remark": _StatusFold.note_in_summary,  # in the run folders of older versions
    JobEvent.CONTROLLER_RESTARTED: _StatusFold.controller_restarted,
    JobEvent.PROCESSES_LEFT: _StatusFold.processes_left,
    JobEvent.JOB_COMPLETED: _StatusFold.job_completed,
}


def _last_known(run: Run, attempt: int, task: TaskStatus) -> TaskStatus:
    """How a task of a lost job ended, from its own log, if its supervisor recorded it; otherwise the task is lost."""
    if task.state != State.RUNNING:
        return task
    folder = run.task(task.role, task.index, attempt, max(0, task.attempts - 1))
    report = None
    for event in logs.read(folder / EVENTS_FILE):
        if event.get("event") == FINISHED:
            with suppress(ValueError):  # the task may have written it
                report = task_reports.report(event)
    if not report:
        return replace(task, state=State.LOST)
    return replace(
        task,
        state=State.FAILED if report.exit_code else State.SUCCEEDED,
        code=report.exit_code,
        exit_code=report.user_exit_code,
        ended=report.ended,
        reason=report.reason,
        message=report.message,
    )
