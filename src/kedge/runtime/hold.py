"""Keeping a failed task alive before it counts as ended, so that its user can look inside."""

from __future__ import annotations

import time

from kedge import contract
from kedge.runtime.outcome import AttemptOutcome
from kedge.runtime.process.loop import NEVER
from kedge.runtime.session import Session

# What is spared of the time left until a time limit, for the exit hooks and the end of the task: a share, and of a
# short time at least so many seconds, but not more than half.
_SPARED_SHARE, _SPARED_SEC = 0.1, 5.0


def hold(session: Session, result: AttemptOutcome) -> None:
    """If the spec asks for it and the task has failed by itself, wait until the hold is over, the user or the
    controller ends it, a stop is requested, or a log cannot be written. What happens after the failure changes nothing
    of its report.

    It comes before the exit hooks, which may remove what the user wants to see. Services and ports stay as they are."""
    supervisor, longest = session.supervisor, session.spec.hold_sec
    by_itself = not (result.succeeded or result.broken or result.stopped_by or supervisor.stopping)
    if not longest or not by_itself or session.broken():
        return
    now = time.monotonic()
    seconds = min(longest, _until_limit(supervisor.limit_end - now))
    supervisor.settle()
    duration = contract.duration_text(round(seconds))
    session.log.info(f"The task has failed and is held for up to {duration}: {result.message}")
    message = session.log.masked(result.message)
    session.events.emit(contract.HELD, hold_sec=round(seconds, 3), code=result.user_code, message=message)
    session.loop.until(lambda: supervisor.released or supervisor.stopping or session.broken(), now + seconds)
    session.log.info("The hold is over")


def _until_limit(left: float) -> float:
    """How long a task may be held with `left` seconds until its first time limit."""
    return left - max(_SPARED_SHARE * left, min(_SPARED_SEC, left / 2)) if left < NEVER else left
