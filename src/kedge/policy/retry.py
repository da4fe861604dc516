"""Whether a completed task or job attempt is tried again (the retry policy of FrameworkController), and when.

`decide` is that policy as it is. It repeats transient failures without end, which suits a cluster whose machines get
replaced; engines on one machine put `limit` and `backoff` around it.
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


class Decision(NamedTuple):
    """`accountable` retries count against max_retries. The delay is to be drawn from `delay_sec` (both included) and
    counts from the attempt's completion. `why` is for the user."""

    retry: bool
    accountable: bool
    delay_sec: tuple[int, int]
    why: str


def decide(
    policy: Policy, accountable_retries: int, behaviour: Behaviour, code: int, *, stopping: bool, job: bool
) -> Decision:
    """Try again or not, after an attempt that completed with `code` (0 is success).

    `accountable_retries` is how many counted retries there were; `stopping` that the job or its attempt is ending or
    the task is being removed. `job`: a job's attempt (which waits after a conflict), not a task's.
    """
    if stopping or code in STOP_CODES:
        return _no("it was stopped")
    if policy.fancy and code != 0:
        if behaviour is Behaviour.TRANSIENT_CONFLICT and job:
            return Decision(True, False, CONFLICT_DELAY_SEC, "resource conflict, retried later")
        if behaviour in (Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT):
            return Decision(True, False, (0, 0), "transient failure")
        if behaviour is Behaviour.PERMANENT:
            return _no("permanent failure: a retry would fail the same way")
    return _counted(policy.max_retries, accountable_retries, code)


def _counted(max_retries: int, done: int, code: int) -> Decision:
    if max_retries == ALWAYS:
        return Decision(True, True, (0, 0), "retried always")
    if code == 0:
        return _no("it succeeded")
    if max_retries == ON_FAILURE:
        return Decision(True, True, (0, 0), "retried after every failure")
    if done < max_retries:
        return Decision(True, True, (0, 0), f"retry {done + 1} of {max_retries}")
    return _no(f"all {max_retries} retries are used" if max_retries > 0 else "no retries were asked for")


def _no(why: str) -> Decision:
    return Decision(False, False, (0, 0), why)


def limit(decision: Decision, transient_retries: int, max_transient: int = 10) -> Decision:
    """The same decision, unless it is one more uncounted retry after `max_transient` of them."""
    if not decision.retry or decision.accountable or transient_retries < max_transient:
        return decision
    return _no(f"given up after {transient_retries} retries of transient failures (at most {max_transient})")


def backoff(n: int, random: Callable[[], float], base_sec: float = 1.0, cap_sec: float = 60.0) -> float:
    """Seconds to wait before the n-th (from 1) transient retry: base, doubled each time, at most cap.

    Jitter takes up to half of it away, so that tasks which failed together do not return together; `random` gives
    numbers in [0, 1).
    """
    full = min(cap_sec, base_sec * 2.0 ** min(n - 1, 64))
    return full * (1.0 - random() / 2)
