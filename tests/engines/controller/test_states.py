"""The controller's small parts: moves of a task, retries, stop requests."""

from __future__ import annotations

import os
import select
import signal

import pytest

from kedge.engines.base import Task
from kedge.engines.controller.retries import Retries
from kedge.engines.controller.states import TaskState, move
from kedge.engines.controller.stop_requests import KILL, Stops
from kedge.plan.model import RetryPolicy
from kedge.policy import retry
from kedge.policy.retry_decision import Failure
from kedge.states import FINAL, State

LIMITS = RetryPolicy(job=1, max_transient=2, backoff_sec=1.0)


def test_a_move_is_announced_with_the_task() -> None:
    said: list[tuple[str, dict[str, object]]] = []
    task = TaskState(Task("worker", 3))
    move(task, State.LAUNCHED, lambda event, **facts: said.append((event, facts)), "task-launched", code=1)
    assert task.state == State.LAUNCHED
    assert said == [("task-launched", {"role": "worker", "index": 3, "task_attempt": 0, "code": 1})]


@pytest.mark.parametrize("state", sorted(FINAL - {State.FAILED}))
def test_a_task_that_has_ended_cannot_move(state: str) -> None:
    with pytest.raises(AssertionError, match=r"worker:0: .* -> waiting"):
        move(TaskState(Task("worker", 0), state), State.WAITING, lambda event, **facts: None)


def test_transient_retries_wait_longer_and_end() -> None:
    retries = Retries()
    delays = [retries.again(retry.Policy(True, 0), LIMITS, Failure(143), lambda: 0.0, job=True) for _ in range(3)]
    assert delays == [1.0, 2.0, None]
    assert "given up after 2" in retries.why


def test_counted_retries_do_not_wait() -> None:
    retries = Retries()
    delays = [retries.again(retry.Policy(True, 1), LIMITS, Failure(255), lambda: 0.0, job=True) for _ in range(2)]
    assert delays == [0.0, None]
    assert retries.done == (1, 0, 0)


def test_a_conflict_waits_for_minutes() -> None:
    delay = Retries().again(retry.Policy(True, 0), LIMITS, Failure(251), lambda: 0.5, job=True)
    assert delay == 480


@pytest.mark.parametrize(("said", "waited"), [(0.5, 1.0), (7.0, 7.0), (1e9, 3600.0), (-5.0, 1.0), (float("nan"), 1.0)])
def test_a_server_s_word_is_kept_within_an_hour(said: float, waited: float) -> None:
    failure = Failure(250, retry_after_sec=said)
    assert Retries().again(retry.Policy(True, 0), LIMITS, failure, lambda: 0.0, job=True) == waited


def test_preemptions_are_not_counted() -> None:
    retries = Retries()
    for _ in range(50):
        assert retries.again(retry.Policy(True, 0), LIMITS, Failure(-1003), lambda: 0.0, job=True) is not None
    assert retries.done.transient == 0


def test_stop_signals_are_counted_and_wake_the_loop() -> None:
    with Stops() as stops:
        assert not select.select([stops], [], [], 0)[0]
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert select.select([stops], [], [], 5)[0]
        stops.drain()
        assert not select.select([stops], [], [], 0)[0]
        assert (stops.count, stops.by, stops.interrupted) == (2, "a stop request", True)
        stops.request("the full disk")
        assert select.select([stops], [], [], 5)[0]
        assert stops.count == 3
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_request_to_kill_counts_twice() -> None:
    with Stops() as stops:
        os.kill(os.getpid(), KILL)
        assert (stops.count, stops.by, stops.interrupted) == (2, "a stop request", False)


@pytest.mark.parametrize(
    ("kind", "by", "expected"),
    [
        ("stop", "", (1, "a stop request", False, 0, 0)),
        ("stop", "ann", (1, "a stop request of ann", False, 0, 0)),
        ("kill", "", (2, "a stop request", False, 0, 0)),
        ("interrupt", "", (1, "Ctrl-C", True, 0, 0)),
        ("hangup", "", (1, "the closed terminal", False, 0, 0)),
        ("release", "ann", (0, "", False, 1, 0)),
        ("notice", "", (0, "", False, 0, 1)),
        ("dance", "", (0, "", False, 0, 0)),
    ],
)
def test_requests_of_a_users_command_count_like_signals(kind: str, by: str, expected: tuple[object, ...]) -> None:
    with Stops() as stops:
        stops.take(kind, by)
        assert (stops.count, stops.by, stops.interrupted, stops.releases, stops.notices) == expected
        assert bool(select.select([stops], [], [], 0)[0]) is (kind != "dance")


def test_the_first_of_two_requests_is_named() -> None:
    with Stops() as stops:
        stops.take("stop")
        stops.take("stop", "ann")
        assert (stops.count, stops.by) == (2, "a stop request")


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stops() as stops:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stops.count == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
