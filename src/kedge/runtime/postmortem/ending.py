"""The end of an attempt: the analysis of a failure, the last event, the report and the termination message."""

from __future__ import annotations

import os
import time

from kedge import contract
from kedge.contract import Report, TaskSpec, TaskTimeLimit
from kedge.light import contextlib
from kedge.light.types import TYPE_CHECKING, Any
from kedge.runtime import bugs, outcome
from kedge.runtime.events import write_report
from kedge.runtime.files import write_over
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.session import Clock, Session

if TYPE_CHECKING:
    from kedge.runtime.postmortem.analysis import Analysis

_CONTAINER_LOG_VARIABLE = "PAI_TERMINATION_LOG"
_CONTAINER_LOG = "/tmp/pai-termination-log"  # noqa: S108  (the terminationMessagePath of OpenPAI's containers)


def finish(session: Session, result: AttemptOutcome, clock: Clock) -> int:
    """Write the last event, the report and the termination message, and return the exit status.

    If a log could not be written, that is the outcome, whatever else happened."""
    supervisor, settled = session.supervisor, session.supervisor.settled
    limit = None if settled else supervisor.limit
    if session.faults.first:
        path, error = session.faults.first
        result = outcome.of_os_error(error, path, result.user_code)
    elif limit and not result.succeeded:  # also if a hook was stopped
        result = outcome.at_limit(limit, result.user_code)
    removed = session.logs.removed_bytes
    if removed:
        session.log.warning("Log rotation has removed " + ", ".join(f"{n} bytes of {s}" for s, n in removed.items()))
    report = make_report(session.spec, result._replace(message=session.log.masked(result.message)), clock)._replace(
        stopped_by=None if settled else supervisor.stopped_by,
        killed=supervisor.killed and not settled,
        removed_bytes=removed or None,
        time_limit=limit and limit.key,
        limit_reached=limit and contract.timestamp(supervisor.limit_reached or 0),
    )
    if settled:
        seconds = round(settled[1] - clock.tick, 6)
        report = report._replace(ended=contract.timestamp(settled[0]), duration_sec=seconds)
    report = report._replace(hooks=session.failed_hooks or None)
    examined = result if result.user_code else result._replace(user_code=None)  # 0 after a stop is no success
    analysis = None if result.succeeded else _analyse(session, examined, clock)
    if analysis:
        code = report.exit_code if analysis.exit_code is None else analysis.exit_code
        report = report._replace(exit_code=code, diagnosis=analysis.diagnosis, evidence=analysis.evidence)
    if limit and result.reason == contract.TIME_LIMIT:
        report = report._replace(exit_code=result.exit_code, diagnosis=_of_limit(limit, report))
    session.finish_consoles()
    session.events.finished(report)
    status = publish(session.spec, report)
    if analysis and analysis.termination:
        _write_termination(session.spec, analysis.termination)
    return status


def make_report(spec: TaskSpec, result: AttemptOutcome, clock: Clock) -> Report:
    """The report of an attempt that ends at this moment."""
    return Report(
        task=spec.task,
        job_attempt=spec.job_attempt,
        task_attempt=spec.task_attempt,
        exit_code=result.exit_code,
        user_exit_code=result.user_code,
        reason=result.reason,
        message=result.message,
        started=contract.timestamp(clock.time),
        ended=contract.timestamp(time.time_ns()),
        duration_sec=round(time.monotonic() - clock.tick, 6),
        retry_after_sec=result.retry_after_sec,
    )


def publish(spec: TaskSpec, report: Report) -> int:
    """Write report.json and return the exit status: the report's, or RUNTIME_BROKE if the file cannot be written."""
    try:
        write_report(spec.folder, report)
    except OSError as error:
        print_error(spec, f"{contract.REPORT_FILE} cannot be written: {error}")
        return contract.RUNTIME_BROKE
    return report.exit_code


def print_error(spec: TaskSpec, message: str) -> None:
    """Print an error to stderr, where no log or report can be written."""
    with contextlib.suppress(OSError):  # stderr may be a file on the full disk
        os.write(2, f"kedge runtime: {spec.task}: {message}\n".encode(errors="surrogateescape"))


def _analyse(session: Session, result: AttemptOutcome, clock: Clock) -> Analysis | None:
    """Find the cause of a failure. If that raises an exception, log it: the report must be written in any case."""
    try:
        from kedge.runtime.postmortem.analysis import analyse  # loads what only failures need

        return analyse(session, result, clock)
    except Exception as error:  # logged
        session.log.text(bugs.describe(error))
        return None


def _of_limit(limit: TaskTimeLimit, report: Report) -> dict[str, Any]:
    """The diagnosis of an attempt that a time limit has ended, with the quotes of the one from its log."""
    from kedge.diagnose.decide.limits import of_time_limit

    found = report.diagnosis or {}
    diagnosis = of_time_limit(limit, report.user_exit_code).to_json()
    return diagnosis | {"evidence": found.get("evidence") or found.get("last_words") or []}


def _write_termination(spec: TaskSpec, message: str) -> None:
    """Write the termination message beside the logs, and in a container also to the path that Kubernetes reads."""
    in_container = spec.logs.console or spec.pai_dir
    of_container = os.environ.get(_CONTAINER_LOG_VARIABLE) or _CONTAINER_LOG
    for path in [f"{spec.folder}/{contract.TERMINATION_LOG}", *([of_container] if in_container else [])]:
        try:
            write_over(path, message.encode())
        except OSError as error:
            # Kubernetes mounts the file. Without that mount, the root may be read-only or have no /tmp.
            if path != of_container or os.path.lexists(path):
                print_error(spec, f"{path} cannot be written: {error}")
