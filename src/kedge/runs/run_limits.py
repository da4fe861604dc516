"""The time limits of a run, from its plan."""

from __future__ import annotations

from typing import Any, NamedTuple

from kedge.runs.folder import Run


class RoleLimits(NamedTuple):
    """The limits of one role in seconds: for each task with its retries, for each attempt, and how long before a limit
    the hooks before the stop run."""

    role: str
    task_sec: float | None
    attempt_sec: float | None
    warn_before_sec: float | None


class RunLimits(NamedTuple):
    """The limit of the whole run in seconds, and those of the roles that have any, or hooks before it."""

    run_sec: float | None = None
    roles: tuple[RoleLimits, ...] = ()


def read(run: Run) -> RunLimits:
    """The limits of a run; none if its plan cannot be read, or is of an older version."""
    try:
        plan = run.plan()
        whole, roles = _seconds(plan["timeLimit"]), tuple(_of_role(role) for role in plan["roles"])
        limited = (one for one in roles if one.task_sec or one.attempt_sec or (whole and one.warn_before_sec))
        return RunLimits(whole, tuple(limited))
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return RunLimits()


def _of_role(role: Any) -> RoleLimits:
    early = role["warnBeforeSec"]
    limits = _seconds(role["timeLimit"]), _seconds(role["attemptTimeLimit"])
    return RoleLimits(str(role["name"]), *limits, None if early is None else float(early))


def _seconds(limit: Any) -> float | None:
    return None if limit is None else float(limit["sec"])
