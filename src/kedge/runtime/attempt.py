"""The story of one attempt: hooks, command, hooks, report."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable

from kedge import contract
from kedge.contract import Report, Step, TaskSpec
from kedge.runtime import execute, hooks, mask, outcome, prepare, signals, tree
from kedge.runtime.events import write_report
from kedge.runtime.outcome import Outcome
from kedge.runtime.prepare import CannotStart, Prepared
from kedge.runtime.session import Options, Session, begin


def run(spec: TaskSpec, options: Options) -> int:
    """Run one attempt of one task to its end and return the supervisor's exit status, which is the report's."""
    clock = (time.time_ns(), time.monotonic())
    try:
        session = begin(spec, options)
    except OSError as error:
        result = outcome.of_os_error(error)
        _complain(spec, result.message)
        return _report(spec, _make_report(spec, result, clock))
    story = _guarded(session, _story)
    session.supervisor.kill_descendants()
    ended = _guarded(session, _close) or story
    assert ended is not None, "only closing ends without an outcome"
    return _report(spec, _finish(session, ended, clock))


def _guarded(session: Session, part: Callable[[Session], Outcome | None]) -> Outcome | None:
    """Do one part of the attempt; whatever goes wrong in it becomes an outcome and a line of the log."""
    try:
        return part(session)
    except CannotStart as error:
        result = outcome.cannot_start(str(error), error.code)
        session.log.error(result.message)
    except OSError as error:
        result = outcome.of_os_error(error)
        session.log.error(result.message)
    except Exception as error:  # the one place that knows how to say so
        session.log.lines(_traceback(error))
        result = outcome.of_bug(error)
    return result


def _story(session: Session) -> Outcome:
    secrets = prepare.read_secrets(session.spec)
    hidden = mask.maskable(secrets.values()) if session.spec.mask else ()
    session.log.hide(hidden)
    prepared = prepare.prepare(
        session.spec, secrets, _log_pipe(session), session.log, lambda shell: execute.has_pipefail(session, shell)
    )
    entered: list[Step] = []
    result = _start_hooks(session, prepared, entered) or _command(session, prepared, hidden)
    result = _exit_hooks(session, prepared, entered, result)
    execute.end_descendants(session)
    return result


def _start_hooks(session: Session, prepared: Prepared, entered: list[Step]) -> Outcome | None:
    """What keeps the command from being started, if anything. `entered` gets the steps whose turn came."""
    session.log.info("Starting to exec precommands")
    for index, step in enumerate(session.spec.steps):
        if stopped := _stopped(session):
            return stopped
        entered.append(step)
        hook = hooks.start_hook(index, step)
        if hook and (failure := _run_hook(session, prepared, hook)):
            return failure
        # Later: variables that a successful start hook has exported join prepared.environment here.
    session.log.info("Precommands finished")
    return _stopped(session)


def _command(session: Session, prepared: Prepared, hidden: tuple[bytes, ...]) -> Outcome:
    session.log.info("USER COMMAND START")
    execute.close_all(session.options.hold)
    try:
        result = outcome.of_command(execute.run_command(session, prepared, hidden))
    except CannotStart as error:
        session.log.error(str(error))
        return outcome.cannot_start(str(error), error.code)
    if result.succeeded:
        session.log.info("USER COMMAND END")
    else:
        session.log.info(f"User command failed with exit code {result.user_code}")
    return result


def _exit_hooks(session: Session, prepared: Prepared, entered: list[Step], result: Outcome) -> Outcome:
    """Run them all; the first that fails after a success makes the task fail."""
    for hook in hooks.exit_hooks(entered, result.succeeded):
        if session.supervisor.impatient:
            break
        session.supervisor.limit_hook()
        failure = _run_hook(session, prepared, hook)
        if failure and result.succeeded:
            result = failure
    return result


def _run_hook(session: Session, prepared: Prepared, hook: hooks.Hook) -> Outcome | None:
    """The outcome if the hook failed and this counts."""
    try:
        status = execute.run_hook(session, prepared, hook)
    except CannotStart as error:
        session.log.error(f"a hook of {hook.step} did not start: {error}")
        return outcome.cannot_start(str(error), error.code)
    if status == 0:
        return None
    result = outcome.of_hook(hook.step, status)
    session.log.warning(result.message + (" (ignored)" if hook.forgiven else ""))
    return None if hook.forgiven else result


def _stopped(session: Session) -> Outcome | None:
    """The outcome if the task must end before its command has begun."""
    session.loop.turn(time.monotonic())  # a request may wait to be read
    if session.faults.first:
        path, error = session.faults.first
        return outcome.of_os_error(error, path)
    name = session.supervisor.stopped_by
    return outcome.stopped_early(name, signals.by_name(name)) if name else None


def _log_pipe(session: Session) -> str | None:
    try:
        path, fd = tree.make_log_pipe(session.spec)
    except OSError as error:
        session.log.warning(f"RUNTIME_LOG_PIPE is not there: {error}")
        return None
    session.read_lines(fd)
    return path


def _close(session: Session) -> None:
    session.close()
    session.reserve.release()
    tree.remove_log_pipe(session.spec)


def _finish(session: Session, result: Outcome, clock: tuple[int, float]) -> Report:
    """Write the last event and make the report; a full disk has the last word on the outcome."""
    if session.faults.first:
        path, error = session.faults.first
        result = outcome.of_os_error(error, path, result.user_code)
    supervisor, removed = session.supervisor, session.logs.removed_bytes
    if removed:
        session.log.warning("Log rotation has removed " + ", ".join(f"{n} bytes of {s}" for s, n in removed.items()))
    report = _make_report(session.spec, result, clock)._replace(
        stopped_by=supervisor.stopped_by, killed=supervisor.killed, removed_bytes=removed or None
    )
    session.events.emit(contract.FINISHED, **report._asdict())
    session.events.sync()
    return report


def _make_report(spec: TaskSpec, result: Outcome, clock: tuple[int, float]) -> Report:
    started, tick = clock
    return Report(
        task=spec.task,
        job_attempt=spec.job_attempt,
        task_attempt=spec.task_attempt,
        exit_code=result.exit_code,
        user_exit_code=result.user_code,
        reason=result.reason,
        message=result.message,
        started=contract.timestamp(started),
        ended=contract.timestamp(time.time_ns()),
        duration_sec=round(time.monotonic() - tick, 6),
    )


def _report(spec: TaskSpec, report: Report) -> int:
    try:
        write_report(spec.folder, report)
    except OSError as error:
        _complain(spec, f"{contract.REPORT_FILE} cannot be written: {error}")
        return contract.RUNTIME_BROKE
    return report.exit_code


def _complain(spec: TaskSpec, message: str) -> None:
    os.write(2, f"kedge runtime: {spec.task}: {message}\n".encode(errors="surrogateescape"))


def _traceback(error: Exception) -> bytes:
    """What Python says of an uncaught error (made without the traceback module, which is slow to load)."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        sys.__excepthook__(type(error), error, error.__traceback__)
    return f"[ERROR] a bug in kedge\n{text.getvalue()}".encode(errors="replace")
