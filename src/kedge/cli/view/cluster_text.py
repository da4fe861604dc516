"""The state of a job in a cluster, for people."""

from __future__ import annotations

import time
from datetime import datetime

from kedge.runs.events import Event
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase, SchedulerAnswer, has_begun, is_fresh, last_answer
from kedge.runs.status import JobStatus
from kedge.terminal_text import one_line

_NOT_LOOKED_AT = ("", "None")
_EARLY_SEC = 3.0


def pending_text(reason: str, start: str | None) -> str:
    """Why a job waits, and when it may start."""
    why = one_line(reason) or "the cluster has not said why"
    return f"{why}; expected to start {_when(start)}" if start else why


def pending(now: JobStatus) -> str:
    """The same from the status of a run; empty if it does not wait."""
    return "" if now.pending is None else pending_text(now.pending, now.expected_start)


def _when(start: str) -> str:
    """The time of day, with the date unless it is today's."""
    when = datetime.fromisoformat(start).astimezone()
    return when.strftime("at %H:%M:%S" if when.date() == datetime.now(when.tzinfo).date() else "on %Y-%m-%d at %H:%M")


def scheduler_text(event: Event) -> str | None:
    """The message for what a cluster says."""
    job = f"job {event['job']}" if event["job"] else "the job"
    match event["state"]:
        case JobPhase.PENDING:
            return f"{job} is pending: {pending_text(event['text'] or event['why'], event['until'])}"
        case JobPhase.UNKNOWN:
            return f"the state of {job} is unknown: {one_line(event['text'])}"
        case JobPhase.RUNNING if event["text"]:
            return f"{job}: {one_line(event['text'])}"
        case JobPhase.RUNNING:
            return f"{job} continues" if event["before"] == JobPhase.RUNNING else f"{job} has started"
    return None


class SchedulerNews:
    """What the cluster says of a run, as events for a view, whenever it is something new. It only reads the run's
    files: who waits for the end of the run asks the cluster."""

    def __init__(self, run: Run) -> None:
        self._run, self._files = run, run.cluster
        self._last = ("", "", "")
        self._known = ""  # the last state that the cluster has said
        self._patience = 0.0  # until when a job that the cluster has not looked at yet is no news, by time.monotonic()

    def changed(self) -> Event | None:
        """The news, if there is any."""
        if not self._files.exists or is_fresh(self._files):
            return None
        answer = last_answer(self._files)
        now = _essence(answer)
        if now == self._last or self._is_early(answer):
            return None
        before, self._last = self._last, now
        if answer.state == JobPhase.GONE or (answer.state == JobPhase.RUNNING and not before[0] and not answer.text):
            self._known = answer.state
            return None
        facts = {
            "state": answer.state,
            "job": answer.job,
            "why": answer.reason,
            "text": answer.text,
            "until": answer.start,
            "before": self._known,
        }
        if answer.state != JobPhase.UNKNOWN:
            self._known = answer.state
        elif has_begun(self._run):  # since the cluster was asked last
            self._known = JobPhase.RUNNING
        return {"event": JobEvent.SCHEDULER_SAID, **facts}

    def _is_early(self, answer: SchedulerAnswer) -> bool:
        """Whether the job has been submitted just now, so that it may well start before a person has read anything."""
        if answer.state != JobPhase.PENDING or answer.reason not in _NOT_LOOKED_AT:
            return False
        self._patience = self._patience or time.monotonic() + _EARLY_SEC
        return time.monotonic() < self._patience


def _essence(answer: SchedulerAnswer) -> tuple[str, str, str]:
    """What a person wants to hear of. An estimate that has changed a little is not news."""
    if answer.state == JobPhase.UNKNOWN and not answer.job:
        return ("", "", "")
    return (answer.state, answer.text or answer.reason, answer.start[:15] if answer.state == JobPhase.PENDING else "")
