"""What decides whether a failure is tried again: of all that is known about it, the first that has something to say.

1. A row of the user's own exit spec for the completion code: its behaviour, also when that is `unknown`.
2. The cause that kedge has found, when it is sure of it and the cause passes by itself or never does.
3. The stock row of the completion code, when it says that the failure is transient.
4. Nothing of these: then the retries that the user has asked for are counted.

So neither a cause that is only likely nor a stock row ends retries that the user has asked for. What does, unless the
user's own row decides, is a failure of the program that comes twice without progress.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kedge.policy import codes, retry
from kedge.policy.codes import Behaviour
from kedge.policy.retry import Policy, Ruling

# How often an end by SIGKILL that nobody saw from inside is tried again without counting: perhaps it was want of
# memory, which does not pass.
MOST_UNSEEN = 1
_TRANSIENT = (Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT)


class Decider(StrEnum):
    """What has decided."""

    EXIT_SPEC = "exit-spec"  # a row of the user's own
    CAUSE = "cause"
    STOCK = "stock-exit-spec"
    COUNT = "retry-count"  # jobRetryCount or taskRetryCount
    SAME_FAILURE = "same-failure"
    LIMIT = "max-transient"


class Failure(NamedTuple):
    """What matters of a failed attempt.

    `code` is the completion code, `row` what the user's own exit spec (a file called `spec`) says of it. `says` is how
    the cause behaves, `sure` whether kedge is. `again`: the program failed as it had the time before, and got no
    further. `unseen`: it was killed by SIGKILL together with its supervisor. `retry_after_sec` is what a server said.
    """

    code: int
    cause: str = "unknown"
    says: Behaviour = Behaviour.UNKNOWN
    sure: bool = False
    row: Behaviour | None = None
    spec: str = "the exit spec"
    again: bool = False
    unseen: bool = False
    retry_after_sec: float = 0.0


class RetriesSoFar(NamedTuple):
    """The retries so far: counted ones, those of transient failures, and among these those of unseen ends."""

    accountable: int = 0
    transient: int = 0
    unseen: int = 0


class Basis(NamedTuple):
    """How a failure is to be taken, and what says so."""

    behaviour: Behaviour
    decider: Decider


class Decision(NamedTuple):
    """Whether to try again, as in Ruling; what decided, and `why` in words that follow `retried:` or `not retried:`."""

    retry: bool
    accountable: bool
    delay_sec: tuple[int, int]
    decider: Decider
    why: str


def basis(row: Behaviour | None, says: Behaviour, sure: bool, stock: Behaviour) -> Basis:
    """The first of the four that applies."""
    if row is not None:
        return Basis(row, Decider.EXIT_SPEC)
    if sure and says is not Behaviour.UNKNOWN:
        return Basis(says, Decider.CAUSE)
    if stock in _TRANSIENT:
        return Basis(stock, Decider.STOCK)
    return Basis(Behaviour.UNKNOWN, Decider.COUNT)


def decide(policy: Policy, done: RetriesSoFar, failure: Failure, max_transient: int, *, job: bool) -> Decision:
    """Try again or not, after an attempt of a task or (`job`) of the job that failed."""
    found = basis(failure.row, failure.says, failure.sure, codes.behaviour(failure.code))
    if failure.unseen and found.decider is Decider.STOCK and done.unseen >= MOST_UNSEEN:
        found = Basis(Behaviour.UNKNOWN, Decider.COUNT)
    ruling = retry.decide(policy, done.accountable, found.behaviour, failure.code, stopping=False, job=job)
    if ruling.retry and failure.again and found.decider is not Decider.EXIT_SPEC:
        why = f"{failure.cause} came twice at the same place, without progress in between"
        return Decision(*retry.NO, Decider.SAME_FAILURE, why)
    if ruling.retry and not ruling.accountable and done.transient >= max_transient:
        retries = "1 retry" if done.transient == 1 else f"{done.transient} retries"
        why = f"given up after {retries} of transient failures (maxTransient is {max_transient})"
        return Decision(*retry.NO, Decider.LIMIT, why)
    count = _count(ruling, policy, done, "jobRetryCount" if job else "taskRetryCount")
    return Decision(*ruling, found.decider, _why(found, failure, ruling, count))


def _why(found: Basis, failure: Failure, ruling: Ruling, count: str) -> str:
    match found.decider, found.behaviour:
        case Decider.EXIT_SPEC, Behaviour.UNKNOWN:
            return f"row {failure.code} of {failure.spec} leaves it open, {count}"
        case Decider.EXIT_SPEC, _:
            return f"row {failure.code} of {failure.spec} says {_said(found.behaviour)}"
        case Decider.CAUSE, Behaviour.PERMANENT:
            return f"{failure.cause} is permanent, a retry would fail the same way"
        case Decider.CAUSE, _:
            return f"{failure.cause} is {_said(found.behaviour)}"
        case Decider.STOCK, _ if failure.unseen:
            return "killed by SIGKILL, perhaps for want of memory, and tried once more"
        case Decider.STOCK, _:
            return f"code {failure.code}, {codes.lookup(failure.code).phrase}, is {_said(found.behaviour)}"
    return _before_count(failure, ruling) + count


def _before_count(failure: Failure, ruling: Ruling) -> str:
    if failure.unseen:
        return "killed by SIGKILL again, perhaps for want of memory, "
    if not ruling.retry:
        return ""
    if failure.cause == "unknown":
        return "no cause found, "
    return f"{failure.cause} is not certain, " if failure.says is not Behaviour.UNKNOWN else ""


def _count(ruling: Ruling, policy: Policy, done: RetriesSoFar, name: str) -> str:
    most = policy.max_retries
    if ruling.retry and most > 0:
        return f"retry {done.accountable + 1} of {most}"
    used = "the only retry is" if most == 1 else f"all {most} retries are"
    return f"{used} used ({name})" if most > 0 else f"{name} is {most}"


def _said(behaviour: Behaviour) -> str:
    return "transient, after a conflict" if behaviour is Behaviour.TRANSIENT_CONFLICT else behaviour.value
