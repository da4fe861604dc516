"""A hook with its tries: how often, how long each, and what is said and remembered of those that failed."""

from __future__ import annotations

import time
from typing import NamedTuple

from kedge import contract
from kedge.runtime import outcome
from kedge.runtime.hooks import hook_run, script
from kedge.runtime.hooks.hook_run import HookEnd
from kedge.runtime.hooks.schedule import Hook, HookPart
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.process.time_limit import TimeLimit
from kedge.runtime.session import Session
from kedge.runtime.setup.prepare import CannotStart, PreparedTask

_TIMED_OUT = 124  # what timeout(1) ends with
_MOST_ASKED_SEC = 300.0  # how long a server can put off the next try


class Try(NamedTuple):
    """How one try ended: `code` as a shell shows it, what happened in words, the part that failed."""

    code: int = 0
    what: str = ""
    part: HookEnd | None = None
    environment: dict[str, str] | None = None


def run(session: Session, prepared: PreparedTask, hook: Hook) -> AttemptOutcome | None:
    """Run a hook, again as often as its step allows; the outcome if it failed and this counts.

    What a successful start hook has exported joins `prepared.environment`."""
    name, most = hook.step.name, 1 + hook.step.retry.max
    session.events.emit(contract.HOOK_STARTED, step=name, side=hook.side)
    for number in range(1, most + 1):
        last = _try(session, prepared, hook)
        if last.code == 0 or session.supervisor.stopping or session.broken() or number == most:
            break
        if not _wait(session, hook, last, number + 1):
            break
    session.events.emit(contract.HOOK_FINISHED, step=name, side=hook.side, code=last.code)
    if hook.side == "start" and (last.code == 0 or hook.forgiven):
        _pass_on(session, prepared, hook, last.environment)
    return _failed(session, hook, last, number) if last.code else None


def _try(session: Session, prepared: PreparedTask, hook: Hook) -> Try:
    """All parts in one attempt. After a part that failed the rest is skipped, unless failures are ignored."""
    limit, result, start = TimeLimit(hook.step.timeout_sec), Try(), prepared.environment
    for part in hook.parts:
        ended = _part(session, prepared, hook, part, limit)
        if isinstance(ended, Try):
            return ended
        if ended.environment is not None:
            result = result._replace(environment=ended.environment)
            prepared = prepared._replace(environment=_joined(start, ended.environment))
        if ended.status and not result.code:
            result = result._replace(code=outcome.shell_code(ended.status), what=_what(ended), part=ended)
        if limit.passed:
            what = f"did not end within {hook.step.timeout_sec:g} seconds and was stopped"
            return result._replace(code=_TIMED_OUT, what=what, part=ended)
        if result.code and not hook.forgiven:
            break
    return result


def _part(session: Session, prepared: PreparedTask, hook: Hook, part: HookPart, limit: TimeLimit) -> HookEnd | Try:
    try:
        return hook_run.run(session, prepared, hook, part, limit)
    except CannotStart as error:
        return Try(error.code or contract.UNRECOGNISED, f"did not start: {error}")


def _what(ended: HookEnd) -> str:
    if ended.message:
        return f"failed: {ended.message}"
    where = f" in: {ended.command}" if ended.command else ""
    return outcome.ending(ended.status) + where


def _wait(session: Session, hook: Hook, last: Try, number: int) -> bool:
    """Say why there is a next try, `number`, and pause before it; False when the task is to end meanwhile."""
    (most, delay), supervisor = hook.step.retry, session.supervisor
    delay = max(delay, min(_MOST_ASKED_SEC, last.part.retry_after_sec or 0.0 if last.part else 0.0))
    name, tries = hook.step.name, most + 1
    message = session.log.masked(last.what)
    session.log.warning(f"a hook of {name} {message} (try {number - 1} of {tries})")
    facts = {"step": name, "message": message, "next_try": number, "tries": tries, "delay_sec": delay}
    session.events.emit(contract.HOOK_RETRYING, **facts)
    session.log.info(f"hook of {name}: try {number} of {tries}" + (f" in {delay:g} seconds" if delay else ""))
    session.loop.until(lambda: supervisor.stopping or session.broken(), time.monotonic() + delay)
    return not (supervisor.stopping or session.broken())


def _failed(session: Session, hook: Hook, last: Try, tries: int) -> AttemptOutcome | None:
    """Say it, remember it for the report, and make it the task's outcome if it counts."""
    message = f"a hook of {hook.step.name} {last.what}" + (f" (after {tries} tries)" if tries > 1 else "")
    part = last.part
    command = session.log.masked(part.command) if part and part.command else None
    session.failed_hooks.append(
        {"step": hook.step.name, "event": hook.event, "command": command, "tries": tries, "code": last.code,
         "policy": hook.step.policy}
    )  # fmt: skip
    session.log.warning(message + (" (ignored)" if hook.forgiven else ""))
    if hook.forgiven:
        return None
    found = outcome.of_hook(hook.step.name, session.log.masked(message), last.code, part.cause if part else None)
    found = found._replace(stopped_by=session.supervisor.stopped_by)
    return found._replace(said=part.said, retry_after_sec=part.retry_after_sec) if part else found


def _pass_on(session: Session, prepared: PreparedTask, hook: Hook, exported: dict[str, str] | None) -> None:
    if exported is not None:
        after = _joined(prepared.environment, exported)
        prepared.environment.clear()
        prepared.environment.update(after)
    elif any(part.action is None for part in hook.parts):
        session.log.warning(
            f"a hook of {hook.step.name} did not tell which variables it exported (it uses exec or an EXIT trap of its "
            "own), so none of them is passed on"
        )


def _joined(before: dict[str, str], exported: dict[str, str]) -> dict[str, str]:
    changes = script.changes(before, exported)
    kept = {name: value for name, value in before.items() if name not in changes}
    return kept | {name: value for name, value in changes.items() if value is not None}
