"""Whether a completed task or job attempt is tried again (the retry policy of FrameworkController), and when.

`decide` is that policy as it is. It repeats transient failures without end, which suits a cluster whose machines get
replaced; `policy.retry_decision` says what counts as transient, and puts a limit around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kedge.contract import STOPPED_BY_COMPLETION, STOPPED_BY_USER
from kedge.policy.codes import Behaviour

DELETED = -230
STOP_CODES = frozenset({STOPPED_BY_USER, STOPPED_BY_COMPLETION, DELETED})
ALWAYS = -2  # as max_retries: also after success
ON_FAILURE = -1  # as max_retries: after every failure
CONFLICT_DELAY_SEC = (60, 900)


class Policy(NamedTuple):
    """`fancy`: transient failures are retried without counting, permanent ones never.

    `max_retries` bounds what is counted, or is ALWAYS or ON_FAILURE.
    """

    fancy: bool
    max_retries: int


class Ruling(NamedTuple):
    """`accountable` retries count against max_retries. The delay is to be drawn from `delay_sec` (both included) and
    counts from the attempt's completion."""

    retry: bool
    accountable: bool = False
    delay_sec: tuple[int, int] = (0, 0)


NO = Ruling(False)


def decide(
    policy: Policy, accountable_retries: int, behaviour: Behaviour, code: int, *, stopping: bool, job: bool
) -> Ruling:
    """Try again or not, after an attempt that completed with `code` (0 is success).

    `accountable_retries` is how many counted retries there were; `stopping` that the job or its attempt is ending or
    the task is being removed. `job`: a job's attempt (which waits after a conflict), not a task's.
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
    """Seconds to wait before the n-th (from 1) transient retry: base, doubled each time, at most cap.

    Jitter takes up to half of it away, so that tasks which failed together do not return together; `random` gives
    numbers in [0, 1).
    """
    full = min(cap_sec, base_sec * 2.0 ** min(n - 1, 64))
    return full * (1.0 - random() / 2)
