"""Which of the facts about a failure decides whether to retry."""

from __future__ import annotations

from itertools import product

import pytest

from kedge.policy.codes import Behaviour
from kedge.policy.retry import CONFLICT_DELAY_SEC, NO, STOP_CODES, Policy
from kedge.policy.retry_decision import Basis, Decider, Decision, Failure, RetriesSoFar, basis, decide

T, C, P, U = Behaviour.TRANSIENT, Behaviour.TRANSIENT_CONFLICT, Behaviour.PERMANENT, Behaviour.UNKNOWN
SPEC, CAUSE, STOCK, COUNT = Decider.EXIT_SPEC, Decider.CAUSE, Decider.STOCK, Decider.COUNT
COUNTED = (U, COUNT)

# Without a row of the user's own: the behaviour of the cause, and whether kedge is sure of it; then, for each behaviour
# of the stock row (transient, conflict, permanent, unknown), the resulting behaviour and the reason that decided.
TABLE = {
    (T, True): [(T, CAUSE)] * 4,
    (P, True): [(P, CAUSE)] * 4,
    (U, True): [(T, STOCK), (C, STOCK), COUNTED, COUNTED],
    (T, False): [(T, STOCK), (C, STOCK), COUNTED, COUNTED],
    (P, False): [(T, STOCK), (C, STOCK), COUNTED, COUNTED],  # likely or guessed
    (U, False): [(T, STOCK), (C, STOCK), COUNTED, COUNTED],
}
KNOWN = [(behaviour, sure, stock) for (behaviour, sure), stock in product(TABLE, (T, C, P, U))]
CODES = {T: 137, C: 251, P: 232, U: 255}


@pytest.mark.parametrize(("behaviour", "sure", "stock"), KNOWN)
def test_without_a_row_of_the_user_s_own(behaviour: Behaviour, sure: bool, stock: Behaviour) -> None:
    assert basis(None, behaviour, sure, stock) == TABLE[behaviour, sure][(T, C, P, U).index(stock)]


@pytest.mark.parametrize("row", [T, C, P, U])
@pytest.mark.parametrize(("behaviour", "sure", "stock"), KNOWN)
def test_a_row_of_the_user_s_own_decides_alone(
    row: Behaviour, behaviour: Behaviour, sure: bool, stock: Behaviour
) -> None:
    assert basis(row, behaviour, sure, stock) == Basis(row, SPEC)


NONE_YET = RetriesSoFar()


def ask(failure: Failure, retries: int = 0, done: RetriesSoFar = NONE_YET, job: bool = True) -> Decision:
    return decide(Policy(True, retries), done, failure, 10, job=job)


def test_preemptions_are_retried_however_many_there_were() -> None:
    done = RetriesSoFar(transient=10)
    assert not ask(Failure(-1000, "evicted", T, True), done=done).retry
    assert ask(Failure(-1003, "preempted", T, True), done=done).retry
    assert not ask(Failure(-1003, "preempted", T, True, row=P), done=done).retry


@pytest.mark.parametrize("row", [None, T, C, P, U])
@pytest.mark.parametrize(("behaviour", "sure", "stock"), KNOWN)
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("retries", [0, 2])
def test_every_combination(
    row: Behaviour | None, behaviour: Behaviour, sure: bool, stock: Behaviour, again: bool, retries: int
) -> None:
    """The same failure twice ends the retries, unless the user's own row decides."""
    taken, decider = Basis(row, SPEC) if row else basis(None, behaviour, sure, stock)
    found = ask(Failure(CODES[stock], "a_cause", behaviour, sure, row, again=again), retries)
    free = taken in (T, C)
    asked = free or (taken is U and retries > 0)
    ended = asked and again and decider is not SPEC
    assert found.retry == (asked and not ended)
    assert found.accountable == (found.retry and not free)
    assert found.delay_sec == (CONFLICT_DELAY_SEC if found.retry and taken is C else (0, 0))
    assert found.decider == (Decider.SAME_FAILURE if ended else decider)


@pytest.mark.parametrize("code", sorted(STOP_CODES))
@pytest.mark.parametrize("row", [None, T])
def test_a_stopped_attempt_is_never_retried(code: int, row: Behaviour | None) -> None:
    assert not ask(Failure(code, row=row), 3).retry


@pytest.mark.parametrize(("done", "retry"), [(0, True), (9, True), (10, False), (11, False)])
@pytest.mark.parametrize("failure", [Failure(143), Failure(1, "a", T, True), Failure(9, row=T)])
def test_transient_retries_are_limited(failure: Failure, done: int, retry: bool) -> None:
    found = ask(failure, 5, RetriesSoFar(transient=done))
    assert found.retry is retry
    assert retry or found[:3] == NO
    assert retry or found.decider is Decider.LIMIT


def test_counted_retries_have_no_other_limit() -> None:
    assert ask(Failure(255), 99, RetriesSoFar(50, 10)).retry


def test_an_unseen_sigkill_is_retried_once_and_then_counted() -> None:
    unseen = Failure(137, "sigkill_unattributed", unseen=True)
    first, then = ask(unseen), RetriesSoFar(transient=1, unseen=1)
    assert (first.retry, first.accountable, first.decider) == (True, False, STOCK)
    assert "perhaps for lack of memory" in first.why
    assert not ask(unseen, 0, then).retry
    assert ask(unseen, 1, then)[:2] == (True, True)
    assert ask(unseen, 0, then).why == "killed by SIGKILL again, perhaps for lack of memory, jobRetryCount is 0"
    assert ask(Failure(137, "sigkill_unattributed"), 0, then).retry  # its supervisor survived
    assert ask(unseen._replace(row=T), 0, then).decider is SPEC


@pytest.mark.parametrize(
    ("failure", "retries", "done", "why"),
    [
        (Failure(223, row=P, spec="mine.yaml"), 3, 0, "row 223 of mine.yaml declares it permanent"),
        (Failure(232, row=T, spec="mine.yaml"), 0, 0, "row 232 of mine.yaml declares it transient"),
        (Failure(232, row=C, spec="mine.yaml"), 0, 0, "row 232 of mine.yaml declares it transient, after a conflict"),
        (Failure(7, row=U, spec="mine.yaml"), 2, 0, "row 7 of mine.yaml leaves it open, retry 1 of 2"),
        (Failure(7, row=U, spec="mine.yaml"), 0, 0, "row 7 of mine.yaml leaves it open, jobRetryCount is 0"),
        (Failure(255, "a", P, True), 3, 0, "a is permanent, a retry would fail the same way"),
        (Failure(255, "a", T, True), 3, 0, "a is transient"),
        (Failure(143), 0, 0, "code 143, ContainerSigTermReceived, is transient"),
        (Failure(255), 3, 1, "no cause found, retry 2 of 3"),
        (Failure(255), 3, 3, "all 3 retries are used (jobRetryCount)"),
        (Failure(255), 1, 1, "the only retry is used (jobRetryCount)"),
        (Failure(255), 0, 0, "jobRetryCount is 0"),
        (Failure(255, "a", P), 3, 0, "a is not certain, retry 1 of 3"),
        (Failure(255, "a", U, True), 3, 0, "retry 1 of 3"),
        (Failure(255, "a", P, again=True), 3, 1, "a occurred twice at the same place, without progress in between"),
    ],
)
def test_why(failure: Failure, retries: int, done: int, why: str) -> None:
    assert ask(failure, retries, RetriesSoFar(done)).why == why


def test_the_count_of_a_task_is_called_by_its_key() -> None:
    assert ask(Failure(255), job=False).why == "taskRetryCount is 0"


@pytest.mark.parametrize("row", [None, T, C, P, U])
@pytest.mark.parametrize(("behaviour", "sure", "stock"), KNOWN)
@pytest.mark.parametrize("retries", [0, 1])
def test_an_unknown_cause_is_never_called_permanent(
    row: Behaviour | None, behaviour: Behaviour, sure: bool, stock: Behaviour, retries: int
) -> None:
    """The text names what decided; only a permanent row or cause is called permanent."""
    found = ask(Failure(CODES[stock], "a_cause", behaviour, sure, row, "mine.yaml"), retries)
    assert ("permanent" in found.why) == (row is P or (row is None and sure and behaviour is P))
