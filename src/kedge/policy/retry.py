"""Whether and when to retry a completed task or job attempt (FrameworkController's retry policy).

`decide` is that policy unchanged. It retries transient failures without limit, which suits a cluster whose machines are
replaced; `policy.retry_decision` decides what counts as transient, and adds a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kedge.contract import STOPPED_BY_COMPLETION, STOPPED_BY_TIME_LIMIT, STOPPED_BY_USER
from kedge.policy.codes import Behaviour

DELETED = -230
STOP_CODES = frozenset({STOPPED_BY_USER, STOPPED_BY_COMPLETION, STOPPED_BY_TIME_LIMIT, DELETED})
ALWAYS = -2  # as max_retries: retry even after success
ON_FAILURE = -1  # as max_retries: retry after every failure
CONFLICT_DELAY_SEC = (60, 900)


class Policy(NamedTuple):
    """`fancy`: transient failures are retried without counting, and permanent ones never.

    `max_retries` limits counted retries, or is ALWAYS or ON_FAILURE.
    """

    fancy: bool
    max_retries: int


class Ruling(NamedTuple):
    """`accountable` retries count against max_retries. The delay is drawn from the range `delay_sec` (inclusive) and
    starts at the attempt's completion."""

    retry: bool
    accountable: bool = False
    delay_sec: tuple[int, int] = (0, 0)


NO = Ruling(False)


def decide(
    policy: Policy, accountable_retries: int, behaviour: Behaviour, code: int, *, stopping: bool, job: bool
) -> Ruling:
    """Whether to retry after an attempt that completed with `code` (0 is success).

    `accountable_retries` is the number of counted retries so far. `stopping`: the job or its attempt is ending, or the
    task is being removed. `job`: the attempt is a job's (which waits after a conflict), not a task's.
    """
    if stopping or code in STOP_CODES:
        return NO
    if policy.fancy and code != 0:
        if behaviour is Behaviour.TRANSIENT_CONFLICT and job:
            return Ruling(True, delay_sec=CONFLICT_DELAY_SEC)
        if behaviour in (Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT):
            return Ruling(True)
        if behaviour is Behaviour.PERMANENT:
            return NO
    return _counted(policy.max_retries, accountable_retries, code)


def _counted(max_retries: int, done: int, code: int) -> Ruling:
    if max_retries == ALWAYS or (code != 0 and (max_retries == ON_FAILURE or done < max_retries)):
        return Ruling(True, accountable=True)
    return NO


def backoff(n: int, random: Callable[[], float], base_sec: float = 1.0, cap_sec: float = 60.0) -> float:
    """Seconds to wait before the n-th transient retry, counted from 1: `base_sec`, doubled each time, up to `cap_sec`.

    Jitter subtracts up to half, so that tasks that failed together do not restart together; `random` returns numbers
    in [0, 1).
    """
    full = min(cap_sec, base_sec * 2.0 ** min(n - 1, 64))
    return full * (1.0 - random() / 2)
