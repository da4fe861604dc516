from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.policy.completion import Completed, Role, Tally, decide
from kedge.states import State


def ok(role: str, index: int = 0) -> Completed:
    return Completed(role, index, True, 0)


def bad(role: str, index: int = 0, code: int = 255) -> Completed:
    return Completed(role, index, False, code)


WORKERS = Role("worker", 2, 1, 2)

# roles, tasks in order of completion, outcome, what triggered it, code
TABLE = {
    "one of two workers fails": ([WORKERS], [bad("worker", 1, 137)], State.FAILED, bad("worker", 1, 137), 137),
    "both workers succeed": ([WORKERS], [ok("worker", 0), ok("worker", 1)], State.SUCCEEDED, ok("worker", 1), 0),
    "a worker that may fail, then the master": (
        [Role("master", 1, 1, 1), Role("worker", 4, -1, -1)],
        [bad("worker", 2), ok("master")],
        State.SUCCEEDED,
        ok("master"),
        0,
    ),
    "both fail with every condition off": (
        [Role("worker", 2, -1, -1)],
        [bad("worker", 0), bad("worker", 1)],
        State.SUCCEEDED,
        None,
        0,
    ),
    "two of three fail, then one succeeds": (
        [Role("worker", 3, 3, 1)],
        [bad("worker", 0), bad("worker", 1), ok("worker", 2)],
        State.SUCCEEDED,
        ok("worker", 2),
        0,
    ),
    "the first worker ends while ps runs": (
        [Role("ps", 1, 1, -1), Role("worker", 2, 1, 1)],
        [ok("worker", 0)],
        State.SUCCEEDED,
        ok("worker", 0),
        0,
    ),
    "ps never ends, the workers do": (
        [WORKERS, Role("ps", 1, 1, 1)],
        [ok("worker", 1), ok("worker", 0)],
        State.SUCCEEDED,
        ok("worker", 0),
        0,
    ),
    "of two conditions the earlier one wins: failure": (
        [Role("worker", 2, 1, 1)],
        [bad("worker", 0, 3), ok("worker", 1)],
        State.FAILED,
        bad("worker", 0, 3),
        3,
    ),
    "of two conditions the earlier one wins: success": (
        [Role("worker", 2, 1, 1)],
        [ok("worker", 1), bad("worker", 0, 3)],
        State.SUCCEEDED,
        ok("worker", 1),
        0,
    ),
    "the second failure is the one that counts": (
        [Role("worker", 4, 2, 4)],
        [bad("worker", 0, 3), ok("worker", 1), bad("worker", 2, 4), bad("worker", 3, 5)],
        State.FAILED,
        bad("worker", 2, 4),
        4,
    ),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_decision_table(row: tuple[list[Role], list[Completed], str, Completed | None, int]) -> None:
    roles, tasks, outcome, trigger, code = row
    verdict = decide(roles, tasks)
    assert verdict
    assert (verdict.outcome, verdict.task, verdict.code) == (outcome, trigger, code)


def test_there_is_no_verdict_before_a_condition_is_met() -> None:
    roles = [Role("worker", 3, 2, 3), Role("ps", 1, 1, -1)]
    assert decide(roles, []) is None
    assert decide(roles, [ok("worker", 0), bad("worker", 1), ok("ps")]) is None


@pytest.mark.parametrize(
    ("role", "tasks", "text"),
    [
        (WORKERS, [bad("worker")], "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"),
        (
            WORKERS,
            [ok("worker", 0), ok("worker", 1)],
            "SucceededTaskCount 2 has reached MinSucceededTaskCount 2 in the TaskRole",
        ),
        (
            Role("worker", 2, -1, -1),
            [ok("worker", 0), bad("worker", 1)],
            "CompletedTaskCount 2 has reached TotalTaskCount 2 and no user specified conditions in "
            "FrameworkAttemptCompletionPolicy have ever been triggered",
        ),
    ],
)
def test_trigger_texts(role: Role, tasks: list[Completed], text: str) -> None:
    verdict = decide([role], tasks)
    assert verdict
    assert verdict.text == text


def test_a_stop_request_wins_over_everything() -> None:
    verdict = decide([WORKERS], [ok("worker", 0), ok("worker", 1)], stop_requested=True)
    assert verdict
    assert (verdict.outcome, verdict.task, verdict.code) == (State.FAILED, None, -210)


EVERY = {
    "all succeed": ([ok("worker", 0), ok("ps"), ok("worker", 1)], State.SUCCEEDED, None, 0),
    "the first fails": (
        [bad("worker", 1, 137), ok("ps"), ok("worker", 0)],
        State.FAILED,
        bad("worker", 1, 137),
        137,
    ),
    "two fail": ([ok("ps"), bad("worker", 1, 3), bad("worker", 0, 4)], State.FAILED, bad("worker", 1, 3), 3),
}


@pytest.mark.parametrize("case", EVERY)
def test_every_task_runs_to_completion_and_must_succeed(case: str) -> None:
    tasks, *expected = EVERY[case]
    roles = [Role("worker", 2, -1, -1), Role("ps", 1, -1, -1)]
    assert all(decide(roles, tasks[:n], every=True) is None for n in range(len(tasks)))
    verdict = decide(roles, tasks, every=True)
    assert verdict is not None
    assert list(verdict[:3]) == expected
    assert "of 3 tasks failed" in verdict.text or verdict.outcome == State.SUCCEEDED


counts = st.sampled_from([-1, 1, 2, 3])


@given(
    st.lists(st.tuples(counts, counts), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=9, max_size=9),
    st.randoms(use_true_random=False),
)
def test_counting_one_by_one_agrees_with_counting_prefixes(
    limits: list[tuple[int, int]], results: list[bool], random: object
) -> None:
    roles = [Role(f"r{n}", 3, *limit) for n, limit in enumerate(limits)]
    tasks = [Completed(f"r{n // 3}", n % 3, results[n], 0 if results[n] else 255) for n in range(3 * len(roles))]
    random.shuffle(tasks)  # type: ignore[attr-defined]
    tally = Tally(roles)
    for end, task in enumerate(tasks, 1):
        verdict = tally.add(task)
        assert verdict == decide(roles, tasks[:end])
        reached = [
            role.name
            for role in roles
            for wanted, succeeded in ((role.min_failed, False), (role.min_succeeded, True))
            if 1 <= wanted <= sum(t.role == role.name and t.succeeded is succeeded for t in tasks[:end])
        ]
        assert bool(verdict) == (bool(reached) or end == len(tasks))
        if verdict:
            assert (verdict.task is None) == (not reached)
            return
