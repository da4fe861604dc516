from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.policy.codes import Behaviour
from kedge.policy.retry import CONFLICT_DELAY_SEC, Policy, backoff, decide

NEVER, ALWAYS, FREE, DELAYED, BELOW = "no", "yes", "yes, not counted", "yes, not counted, delayed", "while acc < max"

COLUMNS = [Policy(fancy, retries) for fancy in (True, False) for retries in (0, 3, -1, -2)]
ROWS = {
    "succeeded": (0, Behaviour.UNKNOWN, [NEVER, NEVER, NEVER, ALWAYS, NEVER, NEVER, NEVER, ALWAYS]),
    "transient": (137, Behaviour.TRANSIENT, [FREE, FREE, FREE, FREE, NEVER, BELOW, ALWAYS, ALWAYS]),
    "conflict": (251, Behaviour.TRANSIENT_CONFLICT, [DELAYED, DELAYED, DELAYED, DELAYED, NEVER, BELOW, ALWAYS, ALWAYS]),
    "permanent": (132, Behaviour.PERMANENT, [NEVER, NEVER, NEVER, NEVER, NEVER, BELOW, ALWAYS, ALWAYS]),
    "unknown": (255, Behaviour.UNKNOWN, [NEVER, BELOW, ALWAYS, ALWAYS, NEVER, BELOW, ALWAYS, ALWAYS]),
    "stopped by the user": (-210, Behaviour.PERMANENT, [NEVER] * 8),
    "stopped by completion": (-220, Behaviour.PERMANENT, [NEVER] * 8),
    "removed": (-230, Behaviour.PERMANENT, [NEVER] * 8),
}


def expected(cell: str, policy: Policy, done: int) -> tuple[bool, bool, tuple[int, int]]:
    retry = cell != NEVER and (cell != BELOW or done < policy.max_retries)
    return retry, retry and cell in (ALWAYS, BELOW), CONFLICT_DELAY_SEC if cell == DELAYED else (0, 0)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("column", range(8))
@pytest.mark.parametrize("done", [0, 2, 3, 4])
def test_decision_table(row: str, column: int, done: int) -> None:
    code, behaviour, cells = ROWS[row]
    policy = COLUMNS[column]
    decision = decide(policy, done, behaviour, code, stopping=False, job=True)
    assert decision == expected(cells[column], policy, done)


@pytest.mark.parametrize("policy", COLUMNS)
def test_nothing_is_retried_while_stopping(policy: Policy) -> None:
    assert not decide(policy, 0, Behaviour.TRANSIENT, 137, stopping=True, job=True).retry


def test_a_task_does_not_wait_after_a_conflict() -> None:
    decision = decide(Policy(True, 0), 0, Behaviour.TRANSIENT_CONFLICT, 251, stopping=False, job=False)
    assert decision == (True, False, (0, 0))


def test_the_conflict_delay_is_one_to_fifteen_minutes() -> None:
    assert CONFLICT_DELAY_SEC == (60, 900)


@pytest.mark.parametrize(("n", "full"), [(1, 1), (2, 2), (5, 16), (6, 32), (7, 60), (100_000, 60)])
def test_backoff_doubles_up_to_the_cap(n: int, full: float) -> None:
    assert backoff(n, lambda: 0.0) == full
    assert backoff(n, lambda: 1.0) == full / 2


@given(st.integers(1, 10_000), st.floats(0, 100), st.integers())
def test_backoff_stays_in_its_range(n: int, base: float, seed: int) -> None:
    full = min(60.0, base * 2.0 ** min(n - 1, 64))
    assert full / 2 <= backoff(n, random.Random(seed).random, base) <= full
