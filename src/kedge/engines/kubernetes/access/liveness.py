"""What Kubernetes says of a run, and the end of a run that did not record it itself."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

from kedge.engines.kubernetes.access import copy_state, fetching, kept_decisions, submitted
from kedge.engines.kubernetes.access.submitted import SubmittedJob, SubmittedRun
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.pods import driver_problems
from kedge.errors import EXIT_FAILED, EXIT_INTERRUPTED, CannotRun, KedgeError
from kedge.runs import disk_reserve, events, report, status
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase, SchedulerAnswer, has_begun, has_end, last_answer, write_answer
from kedge.states import FINAL, State
from kedge.terminal_text import one_line

_SUBMIT_SEC = 180.0  # its objects may still be being created, although the caller was killed
_PATIENCE_SEC = 2.0  # for another command that records the end
_INTERRUPTS = ("Ctrl-C",)
_DELETED = "what kedge had created for it in the namespace was deleted"


def ask_scheduler(run: Run) -> SchedulerAnswer:
    """What Kubernetes says of a run. Records the end of a run of which nothing is left there, once."""
    return recorded(run, _asked(run))


def recorded(run: Run, said: SchedulerAnswer) -> SchedulerAnswer:
    """The same, which is remembered for those who cannot ask."""
    if said != last_answer(run.cluster):
        write_answer(run.cluster, said)
    return said


def unreachable(run: Run, error: CannotRun, now: float) -> SchedulerAnswer:
    """What was known last, and of when that is."""
    since = copy_state.read(run.cluster).when
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    text = f"{error}; what is shown of it is as it was at {shown}" if since else str(error)
    return last_answer(run.cluster)._replace(state=JobPhase.UNKNOWN, text=one_line(text), checked=now)


def _asked(run: Run) -> SchedulerAnswer:
    now = time.time()
    try:
        found = SubmittedRun(run)
        anchor = found.anchor()
        if anchor is None:
            return without_owner(found, _DELETED, now)
        ended = (anchor["metadata"].get("annotations") or {}).get(labels.ENDED)
        if ended:
            return _ended(found, anchor, str(ended), now)
        return _of_driver(found, now)
    except CannotRun as error:
        return unreachable(run, error, now)


def without_owner(found: SubmittedJob, deleted: str, now: float) -> SchedulerAnswer:
    """What there is of a run that has not what owns all else, which somebody has `deleted` if it was there."""
    if not found.uid and now - found.time < _SUBMIT_SEC:
        return SchedulerAnswer(found.name, text="it is being submitted", checked=now)
    text = deleted if found.uid else "its submission was interrupted before the cluster had it"
    record_end(found.run, State.FAILED, text)
    return SchedulerAnswer(found.name, JobPhase.GONE, checked=now)


def _ended(found: SubmittedRun, anchor: dict[str, Any], ended: str, now: float) -> SchedulerAnswer:
    """The driver has said how the job ended. What the run folder says about that is fetched, if it can be; otherwise
    what the decision log says."""
    run = found.run
    gone = SchedulerAnswer(found.names.name, JobPhase.GONE, checked=now)
    if has_end(run):
        return gone
    why = fetching.fetch(run)
    if has_end(run):
        return gone
    pod = found.driver()
    if why and pod is not None and submitted.is_running(pod):
        return SchedulerAnswer(found.names.name, JobPhase.RUNNING, text=why, checked=now)  # it can be fetched later
    if why:
        with suppress(OSError):
            kept_decisions.restore(found, anchor)
    state, code = _end_of(ended)
    text = f"its records cannot be fetched any more: {why}" if why else "its records end before its end"
    record_end(run, state, text, code)
    return gone


def _end_of(text: str) -> tuple[State, int | None]:
    """The state and the exit code that the driver has written."""
    try:
        value = json.loads(text)
        code = value.get("exit_code")
        return State(value["state"]), code if isinstance(code, int) else None
    except (ValueError, KeyError, AttributeError):
        return State.FAILED, None


def _of_driver(found: SubmittedRun, now: float) -> SchedulerAnswer:
    name, pod = found.names.name, found.driver()
    if pod is not None and submitted.is_running(pod):
        return SchedulerAnswer(name, JobPhase.RUNNING, checked=now)
    reason, text = _reason(pod), _waits(found, pod)
    if has_begun(found.run):  # the tasks go on without it
        return SchedulerAnswer(name, JobPhase.RUNNING, reason, f"its driver is being replaced: {text}", checked=now)
    return SchedulerAnswer(name, JobPhase.PENDING, reason, text, checked=now)


def _waits(found: SubmittedRun, pod: dict[str, Any] | None) -> str:
    """Why a driver does not run, in words."""
    job = found.job()
    pods, about_job = ([pod], ()) if pod else ([], found.events_of(job))
    text = driver_problems.why_not_running(job, pods, about_job, found.events_of(pod))
    return text or "its driver is being started"


def _reason(pod: dict[str, Any] | None) -> str:
    """The same in Kubernetes' own term."""
    said: dict[str, Any] = pod.get("status", {}) if pod else {"phase": "NoPod"}
    for container in said.get("containerStatuses") or ():
        if waiting := container.get("state", {}).get("waiting"):
            return str(waiting.get("reason", ""))
    for condition in said.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("reason", ""))
    return str(said.get("phase", ""))


def stopped_by(run: Run) -> str:
    """Who has asked kedge to stop the run; empty if nobody has."""
    for event in events.read(run.events):
        if event.get("event") == JobEvent.STOP_REQUESTED:
            return str(event.get("by", ""))
    return ""


def record_end(run: Run, state: State, text: str, exit_code: int | None = None) -> None:
    """Record the end of a run that has no driver any more, with its report, unless it is recorded already. Does nothing
    if that is not possible: the run is lost then."""
    by = stopped_by(run)
    if by and state is State.FAILED:
        state, text = State.STOPPED, f"stopped by {by}"
    code = exit_code if exit_code is not None else EXIT_INTERRUPTED if by in _INTERRUPTS else EXIT_FAILED
    run.cluster.remove_secrets()
    with suppress(OSError, TimeoutError, KedgeError), EventLog(run.events, _PATIENCE_SEC) as log:
        if status.fold(events.read(run.events)).state not in FINAL:
            disk_reserve.free(run.path)
            log.append(JobEvent.JOB_COMPLETED, sync=True, state=state, code=None, text=text, exit_code=code)
        report.complete(run)
