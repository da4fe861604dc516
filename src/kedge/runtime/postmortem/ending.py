"""The end of an attempt: why it failed, if it did, and what is written about that."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from typing import TYPE_CHECKING

from kedge import contract
from kedge.contract import Report, TaskSpec
from kedge.runtime import bugs, outcome
from kedge.runtime.events import write_report
from kedge.runtime.files import write_over
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.session import Clock, Session

if TYPE_CHECKING:
    from kedge.runtime.postmortem.analysis import Analysis

_CONTAINER_LOG = "/tmp/pai-termination-log"  # noqa: S108  (where Kubernetes is told to look)


def finish(session: Session, result: AttemptOutcome, clock: Clock) -> int:
    """Say how it ended in the last event, the report and the termination message, and return the exit status.

    A log that could not be written has the last word on the outcome."""
    if session.faults.first:
        path, error = session.faults.first
        result = outcome.of_os_error(error, path, result.user_code)
    supervisor, removed = session.supervisor, session.logs.removed_bytes
    if removed:
        session.log.warning("Log rotation has removed " + ", ".join(f"{n} bytes of {s}" for s, n in removed.items()))
    report = make_report(session.spec, result._replace(message=session.log.masked(result.message)), clock)._replace(
        stopped_by=supervisor.stopped_by,
        killed=supervisor.killed,
        removed_bytes=removed or None,
    )
    report = report._replace(hooks=session.failed_hooks or None)
    found = None if result.succeeded else _analyse(session, result, clock)
    if found:
        code = report.exit_code if found.exit_code is None else found.exit_code
        report = report._replace(exit_code=code, diagnosis=found.diagnosis, evidence=found.evidence)
    session.finish_consoles()
    session.events.finished(report)
    status = publish(session.spec, report)
    if found and found.termination:
        _write_termination(session.spec, found.termination)
    return status


def make_report(spec: TaskSpec, result: AttemptOutcome, clock: Clock) -> Report:
    """The report of an attempt that ends now."""
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
    """Write report.json and return the exit status, which is 1 if even that cannot be done."""
    try:
        write_report(spec.folder, report)
    except OSError as error:
        complain(spec, f"{contract.REPORT_FILE} cannot be written: {error}")
        return contract.RUNTIME_BROKE
    return report.exit_code


def complain(spec: TaskSpec, message: str) -> None:
    """Say on stderr what could be said nowhere else."""
    with contextlib.suppress(OSError):  # the disk of its file may be full, too
        os.write(2, f"kedge runtime: {spec.task}: {message}\n".encode(errors="surrogateescape"))


def _analyse(session: Session, result: AttemptOutcome, clock: Clock) -> Analysis | None:
    """The cause of a failure. Whatever goes wrong with that, the report is written."""
    try:
        found: Analysis = importlib.import_module("kedge.runtime.postmortem.analysis").analyse(session, result, clock)
    except Exception as error:  # said in the log
        session.log.text(bugs.describe(error))
        return None
    return found


def _write_termination(spec: TaskSpec, message: str) -> None:
    """Beside the logs, and in a container also where it is looked for."""
    in_container = spec.logs.console or spec.pai_dir
    for path in [f"{spec.folder}/{contract.TERMINATION_LOG}", *([_CONTAINER_LOG] if in_container else [])]:
        try:
            write_over(path, message.encode())
        except OSError as error:
            # Who wants it there mounts it; elsewhere the root may be read-only, or have no /tmp.
            if path != _CONTAINER_LOG or os.path.lexists(path):
                complain(spec, f"{path} cannot be written: {error}")
