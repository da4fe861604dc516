"""The time limits of an attempt, by a clock that nobody can set."""

from __future__ import annotations

import time

from kedge import contract
from kedge.contract import TaskTimeLimit
from kedge.runtime.session import Session


def begin(session: Session, started: float) -> None:
    """Start the limits that began before this attempt; it has started at `started` (of time.monotonic)."""
    for limit in session.spec.time_limits:
        if limit.left_sec is not None:
            _start(session, limit, started + limit.left_sec)


def begin_attempt(session: Session) -> None:
    """Start the limits of the attempt itself, now that nothing prevents its hooks from running."""
    for limit in session.spec.time_limits:
        if limit.left_sec is None:
            _start(session, limit, time.monotonic() + limit.limit_sec)


def _start(session: Session, limit: TaskTimeLimit, end: float) -> None:
    session.supervisor.limit_end = min(session.supervisor.limit_end, end)
    session.loop.alarm(end, lambda: session.supervisor.reach(limit))
    early = session.spec.warn_before_sec
    if early is not None and end - early > time.monotonic():  # else the hooks run when the limit has passed
        text = f"{limit.key} of {contract.duration_text(limit.limit_sec)} ends in {contract.duration_text(early)}"
        session.loop.alarm(end - early, lambda: session.announce(text, limit.key))
