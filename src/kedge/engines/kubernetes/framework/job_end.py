"""How a Framework ended, as the last events of the run, with the one answer to why it failed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kedge.contract import CANNOT_START, STOPPED_BY_USER, Report
from kedge.diagnose.decide import job
from kedge.diagnose.decide.job import JobVerdict, TaskResult
from kedge.diagnose.model import Diagnosis
from kedge.engines.kubernetes.framework.event_fold import KnownEvents, NewEvent
from kedge.engines.kubernetes.framework.progress import FrameworkProgress
from kedge.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.terminal_text import one_line

_INTERRUPT = "Ctrl-C"
_LONGEST = 500  # characters of what FrameworkController says


def events(known: KnownEvents, found: FrameworkProgress) -> Iterator[NewEvent]:
    """The end of the attempt and of the job, when all of its tasks are recorded."""
    judged = _judged(known) if found.state == State.FAILED else JobVerdict(None, None)
    text = _text(known, found)
    root = (
        {"task": judged.task, "cause": judged.diagnosis.cause, "behavior": judged.diagnosis.behaviour}
        if judged.diagnosis
        else None
    )
    facts: dict[str, Any] = {"attempt": found.attempt, "verdict": found.state, "text": text, "code": found.code}
    yield NewEvent(JobEvent.ATTEMPT_COMPLETED, {**facts, "root": root}, True)
    end: dict[str, Any] = {"state": found.state, "code": found.code, "text": text, "exit_code": exit_code(known, found)}
    if judged.diagnosis:
        end |= {"judged": judged.to_json(), "lines": {}}
    yield NewEvent(JobEvent.JOB_COMPLETED, end, True)


def exit_code(known: KnownEvents, found: FrameworkProgress) -> int:
    """That of `kedge run`."""
    if found.state == State.SUCCEEDED:
        return EXIT_OK
    return EXIT_INTERRUPTED if known.stopped_by == _INTERRUPT else EXIT_FAILED


def _text(known: KnownEvents, found: FrameworkProgress) -> str:
    """What FrameworkController says of the end, without the diagnostics of the task behind it, which stand there."""
    if found.code == STOPPED_BY_USER:
        return f"stopped by {known.stopped_by or 'somebody'}"
    said = one_line(found.text.partition(": Diagnostics: ")[0])[:_LONGEST]
    return said or ("all tasks ended as wanted" if found.state == State.SUCCEEDED else f"completion code {found.code}")


def _judged(known: KnownEvents) -> JobVerdict:
    results = [_result(f"{role}:{index}", *end) for (role, index), end in known.reports.items() if end[1]]
    return job.verdict(results)


def _result(task: str, state: State, report: Report | None) -> TaskResult:
    assert report is not None
    ended = datetime.fromisoformat(report.ended).timestamp()
    failed = state == State.FAILED and report.diagnosis
    diagnosis = Diagnosis.from_json(report.diagnosis) if failed and report.diagnosis else None
    return TaskResult(task, state, ended, diagnosis, "init" if report.reason == CANNOT_START else "command")
