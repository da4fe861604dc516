"""Decides whether to retry a failure. The first of these that applies decides:

1. A row of the user's own exit spec for the completion code, with any behaviour, even `unknown`.
2. The cause that kedge found, if kedge is sure of it and the cause is transient or permanent.
3. The stock row of the completion code, if its behaviour is transient.
4. Otherwise the number of retries that the user requested.

A retry after a preemption by the cluster is not counted: the job did what it could, and waits for its turn again.

So neither an uncertain cause nor a stock row prevents retries that the user requested. Only a program that fails twice
in the same way without progress does, unless a row of the user's own decides.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kedge.policy import codes, retry
from kedge.policy.codes import Behaviour
from kedge.policy.retry import Policy, Ruling

# Uncounted retries after a SIGKILL that also killed the supervisor: it may have been a lack of memory, which does not
# go away.
MAX_UNSEEN = 1
PREEMPTED = -1003  # only the cluster's own word gives this code, never what a task prints
_TRANSIENT = (Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT)


class Decider(StrEnum):
    """The reason that decided."""

    EXIT_SPEC = "exit-spec"  # a row of the user's own exit spec
    CAUSE = "cause"
    STOCK = "stock-exit-spec"
    COUNT = "retry-count"  # jobRetryCount or taskRetryCount
    SAME_FAILURE = "same-failure"
    LIMIT = "max-transient"


class Failure(NamedTuple):
    """The facts about a failed attempt that matter for a retry.

    `code` is the completion code; `row` is its behaviour in the user's own exit spec (a file called `spec`).
    `behaviour` is that of the cause, and `sure` whether kedge is sure of that cause. `again`: the program failed in
    the same way as the time before, without progress. `unseen`: SIGKILL killed it together with its supervisor.
    `retry_after_sec` is the delay that a server requested.
    """

    code: int
    cause: str = "unknown"
    behaviour: Behaviour = Behaviour.UNKNOWN
    sure: bool = False
    row: Behaviour | None = None
    spec: str = "the exit spec"
    again: bool = False
    unseen: bool = False
    retry_after_sec: float = 0.0


class RetriesSoFar(NamedTuple):
    """The retries so far: counted ones, those after transient failures, and how many of the latter were `unseen`."""

    accountable: int = 0
    transient: int = 0
    unseen: int = 0


class Basis(NamedTuple):
    """The behaviour that a failure is taken to have, and the reason."""

    behaviour: Behaviour
    decider: Decider


class Decision(NamedTuple):
    """Whether to retry, as in Ruling, the reason that decided, and `why` as text after `retried:` or `not retried:`."""

    retry: bool
    accountable: bool
    delay_sec: tuple[int, int]
    decider: Decider
    why: str


def basis(row: Behaviour | None, behaviour: Behaviour, sure: bool, stock: Behaviour) -> Basis:
    """The first of the four reasons that applies."""
    if row is not None:
        return Basis(row, Decider.EXIT_SPEC)
    if sure and behaviour is not Behaviour.UNKNOWN:
        return Basis(behaviour, Decider.CAUSE)
    if stock in _TRANSIENT:
        return Basis(stock, Decider.STOCK)
    return Basis(Behaviour.UNKNOWN, Decider.COUNT)


def decide(policy: Policy, done: RetriesSoFar, failure: Failure, max_transient: int, *, job: bool) -> Decision:
    """Whether to retry after a failed attempt of a task, or of the job if `job`."""
    found = basis(failure.row, failure.behaviour, failure.sure, codes.behaviour(failure.code))
    if failure.unseen and found.decider is Decider.STOCK and done.unseen >= MAX_UNSEEN:
        found = Basis(Behaviour.UNKNOWN, Decider.COUNT)
    ruling = retry.decide(policy, done.accountable, found.behaviour, failure.code, stopping=False, job=job)
    if ruling.retry and failure.again and found.decider is not Decider.EXIT_SPEC:
        why = f"{failure.cause} occurred twice at the same place, without progress in between"
        return Decision(*retry.NO, Decider.SAME_FAILURE, why)
    limited = ruling.retry and not ruling.accountable and failure.code != PREEMPTED
    if limited and done.transient >= max_transient:
        retries = "1 retry" if done.transient == 1 else f"{done.transient} retries"
        why = f"given up after {retries} for transient failures (maxTransient is {max_transient})"
        return Decision(*retry.NO, Decider.LIMIT, why)
    count = _count(ruling, policy, done, "jobRetryCount" if job else "taskRetryCount")
    return Decision(*ruling, found.decider, _why(found, failure, ruling, count))


def _why(found: Basis, failure: Failure, ruling: Ruling, count: str) -> str:
    match found.decider, found.behaviour:
        case Decider.EXIT_SPEC, Behaviour.UNKNOWN:
            return f"row {failure.code} of {failure.spec} leaves it open, {count}"
        case Decider.EXIT_SPEC, _:
            return f"row {failure.code} of {failure.spec} declares it {_phrase(found.behaviour)}"
        case Decider.CAUSE, Behaviour.PERMANENT:
            return f"{failure.cause} is permanent, a retry would fail the same way"
        case Decider.CAUSE, _:
            return f"{failure.cause} is {_phrase(found.behaviour)}"
        case Decider.STOCK, _ if failure.unseen:
            return "killed by SIGKILL, perhaps for lack of memory; retried only once"
        case Decider.STOCK, _:
            return f"code {failure.code}, {codes.lookup(failure.code).phrase}, is {_phrase(found.behaviour)}"
    return _before_count(failure, ruling) + count


def _before_count(failure: Failure, ruling: Ruling) -> str:
    if failure.unseen:
        return "killed by SIGKILL again, perhaps for lack of memory, "
    if not ruling.retry:
        return ""
    if failure.cause == "unknown":
        return "no cause found, "
    return f"{failure.cause} is not certain, " if failure.behaviour is not Behaviour.UNKNOWN else ""


def _count(ruling: Ruling, policy: Policy, done: RetriesSoFar, name: str) -> str:
    most = policy.max_retries
    if ruling.retry and most > 0:
        return f"retry {done.accountable + 1} of {most}"
    used = "the only retry is" if most == 1 else f"all {most} retries are"
    return f"{used} used ({name})" if most > 0 else f"{name} is {most}"


def _phrase(behaviour: Behaviour) -> str:
    return "transient, after a conflict" if behaviour is Behaviour.TRANSIENT_CONFLICT else behaviour.value
