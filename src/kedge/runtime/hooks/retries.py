"""Running a hook with its retries: how many tries, their time limit, and how failed tries are logged and reported."""

from __future__ import annotations

import time

from kedge import contract
from kedge.light.types import NamedTuple
from kedge.runtime import outcome
from kedge.runtime.hooks import hook_run, script
from kedge.runtime.hooks.hook_run import HookEnd
from kedge.runtime.hooks.schedule import Hook, HookPart
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.process.time_limit import TimeLimit
from kedge.runtime.session import Session
from kedge.runtime.setup.prepare import CannotStart, PreparedTask

_MAX_SERVER_DELAY_SEC = 300.0  # longest pause before the next try that a server can ask for


class Try(NamedTuple):
    """How one try ended: the shell's exit code, a description of the failure, and the part that failed."""

    code: int = 0
    description: str = ""
    part: HookEnd | None = None
    environment: dict[str, str] | None = None


def run(session: Session, prepared: PreparedTask, hook: Hook) -> AttemptOutcome | None:
    """Run a hook, retrying it as often as its step allows. Return the outcome if it failed and this is not ignored.

    Variables that a successful start hook exported are added to `prepared.environment`."""
    name, tries = hook.step.name, 1 + hook.step.retry.max
    session.events.emit(contract.HOOK_STARTED, step=name, side=hook.side)
    for number in range(1, tries + 1):
        last = _try(session, prepared, hook)
        if last.code == 0 or session.supervisor.stopping or session.broken() or number == tries:
            break
        if not _announce_and_wait(session, hook, last, number + 1):
            break
    session.events.emit(contract.HOOK_FINISHED, step=name, side=hook.side, code=last.code)
    if hook.side == "start" and (last.code == 0 or hook.failure_ignored):
        _pass_environment_on(session, prepared, hook, last.environment)
    return _report_failure(session, hook, last, number) if last.code else None


def _try(session: Session, prepared: PreparedTask, hook: Hook) -> Try:
    """Run all parts once. After a part that failed the rest is skipped, unless failures are ignored."""
    limit, result, start = TimeLimit(hook.step.timeout_sec), Try(), prepared.environment
    for part in hook.parts:
        ended = _part(session, prepared, hook, part, limit)
        if isinstance(ended, Try):
            return ended
        if ended.environment is not None:
            result = result._replace(environment=ended.environment)
            prepared = prepared._replace(environment=_joined(start, ended.environment))
        if ended.status and not result.code:
            code, description = outcome.shell_code(ended.status), _description(ended)
            result = result._replace(code=code, description=description, part=ended)
        if limit.passed:
            description = f"did not end within {hook.step.timeout_sec:g} seconds and was stopped"
            return result._replace(code=contract.SHELL_TIMED_OUT, description=description, part=ended)
        if result.code and not hook.failure_ignored:
            break
    return result


def _part(session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, limit: TimeLimit) -> HookEnd | Try:
    try:
        if part.service:
            from kedge.runtime.hooks import services  # few tasks have one

            return services.start(session, prepared, hook, part, limit)
        return hook_run.run(session, prepared, hook, part, limit)
    except CannotStart as error:
        return Try(error.code or contract.UNRECOGNISED, f"did not start: {error}")


def _description(ended: HookEnd) -> str:
    if ended.message:
        return f"failed: {ended.message}"
    where = f" in: {ended.command}" if ended.command else ""
    return outcome.ending(ended.status) + where


def _announce_and_wait(session: Session, hook: Hook, last: Try, number: int) -> bool:
    """Log why the hook is tried again, and wait before the next try, `number`. False when the task is stopped
    meanwhile."""
    (retries, delay), supervisor = hook.step.retry, session.supervisor
    _end_services(session, hook)
    delay = max(delay, min(_MAX_SERVER_DELAY_SEC, last.part.retry_after_sec or 0.0 if last.part else 0.0))
    name, tries = hook.step.name, retries + 1
    message = session.log.masked(last.description)
    session.log.warning(f"a hook of {name} {message} (try {number - 1} of {tries})")
    facts = {"step": name, "message": message, "next_try": number, "tries": tries, "delay_sec": delay}
    session.events.emit(contract.HOOK_RETRYING, **facts)
    session.log.info(f"hook of {name}: try {number} of {tries}" + (f" in {delay:g} seconds" if delay else ""))
    session.loop.until(lambda: supervisor.stopping or session.broken(), time.monotonic() + delay)
    return not (supervisor.stopping or session.broken())


def _end_services(session: Session, hook: Hook) -> None:
    """End the services that a failed try has started: the next try starts them again."""
    for service in [each for each in session.services if each.step is hook.step]:
        session.services.remove(service)
        session.supervisor.end_service(service.pid)


def _report_failure(session: Session, hook: Hook, last: Try, tries: int) -> AttemptOutcome | None:
    """Log the failure and add it to the report. Return it as the task's outcome unless it is ignored."""
    message = f"a hook of {hook.step.name} {last.description}" + (f" (after {tries} tries)" if tries > 1 else "")
    part = last.part
    command = session.log.masked(part.command) if part and part.command else None
    session.failed_hooks.append(
        {"step": hook.step.name, "event": hook.event, "command": command, "tries": tries, "code": last.code,
         "policy": hook.step.policy}
    )  # fmt: skip
    session.log.warning(message + (" (ignored)" if hook.failure_ignored else ""))
    if hook.failure_ignored:
        return None
    failure = outcome.of_hook(hook.step.name, session.log.masked(message), last.code, part.cause if part else None)
    failure = failure._replace(stopped_by=session.supervisor.stopped_by)
    return failure._replace(last_line=part.last_line, retry_after_sec=part.retry_after_sec) if part else failure


def _pass_environment_on(session: Session, prepared: PreparedTask, hook: Hook, exported: dict[str, str] | None) -> None:
    if exported is not None:
        after = _joined(prepared.environment, exported)
        prepared.environment.clear()
        prepared.environment.update(after)
    elif any(not part.action and not part.service for part in hook.parts):
        session.log.warning(
            f"the variables that a hook of {hook.step.name} exported are not passed on: it uses exec or sets its own "
            "EXIT trap, so they are not known"
        )


def _joined(before: dict[str, str], exported: dict[str, str]) -> dict[str, str]:
    changes = script.changes(before, exported)
    kept = {name: value for name, value in before.items() if name not in changes}
    return kept | {name: value for name, value in changes.items() if value is not None}
