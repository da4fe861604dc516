"""A whole job, by tables: attempts, retries and stop requests; what is announced, and the outcome."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.contract import DISK_FULL, STOPPED_BY_USER
from kedge.engines.base import JobOutcome
from kedge.errors import CannotRun
from kedge.runs.job_events import JobEvent
from kedge.testing.backend import failed, stopped, succeeded

from .scripted import A, B, Scene, Turns, plan, shown

FULL = {"reason": DISK_FULL, "message": "the file system is full"}
TRANSIENT = 143  # by its stock row
FAIL, PASS = (failed(A),), (succeeded(A),)


def attempts(scene: Scene) -> int:
    return sum(each.startswith("place ") for each in scene.said)


def essence(outcome: JobOutcome) -> tuple[str, int, int]:
    return outcome.state, outcome.code, outcome.attempt


# (plan, what happens, how the job ended: state, code, last attempt)
ENDS: list[tuple[dict[str, Any], Turns, tuple[str, int, int]]] = [
    ({}, (PASS,), ("succeeded", 0, 0)),
    ({}, (FAIL,), ("failed", 1, 0)),
    ({"job_retries": 1}, (FAIL, PASS), ("succeeded", 0, 1)),
    ({"job_retries": 1}, (FAIL, (failed(A, 2),)), ("failed", 2, 1)),
    ({"job_retries": 2}, (FAIL, FAIL, PASS), ("succeeded", 0, 2)),
    ({"job_retries": 1}, (PASS,), ("succeeded", 0, 0)),
    ({"job_retries": -1}, (FAIL,) * 4 + (PASS,), ("succeeded", 0, 4)),
    # Transient failures are not counted, up to their own limit.
    ({}, ((failed(A, TRANSIENT),), PASS), ("succeeded", 0, 1)),
    ({"max_transient": 1}, ((failed(A, TRANSIENT),),) * 2, ("failed", TRANSIENT, 1)),
    ({"max_transient": 1, "job_retries": 1}, ((failed(A, TRANSIENT),), FAIL, PASS), ("succeeded", 0, 2)),
    # Without a gang first the task, then the job.
    ({"gang": False, "task_retries": 1, "job_retries": 1}, (FAIL, FAIL, PASS), ("succeeded", 0, 1)),
    ({"gang": False, "task_retries": 1, "job_retries": 1}, (FAIL,) * 4, ("failed", 1, 1)),
]


@pytest.mark.parametrize(("keys", "turns", "end"), ENDS, ids=shown)
def test_attempts_until_the_policies_are_satisfied(
    scene: Scene, keys: dict[str, Any], turns: Turns, end: tuple[str, int, int]
) -> None:
    outcome = scene.job(plan(1, **keys), *turns)
    assert essence(outcome) == end
    assert attempts(scene) == end[2] + 1
    assert (outcome.interrupted, outcome.disk_full) == (False, False)


def test_an_attempt_is_announced_with_its_verdict_and_its_root(scene: Scene) -> None:
    outcome = scene.job(plan(1), (failed(A, 139, message="it crashed"),))
    facts = scene.facts[JobEvent.ATTEMPT_COMPLETED]
    assert (facts["attempt"], facts["verdict"], facts["code"]) == (0, "failed", 139)
    assert facts["root"] == {"task": "w:0", "cause": "native_crash", "behavior": "unknown"}
    assert facts["text"] == "w:0: native_crash"
    assert outcome.judged.task == "w:0"
    assert outcome.text == "w:0: native_crash; not retried: jobRetryCount is 0"


def test_a_retry_is_announced_with_what_decided_it(scene: Scene) -> None:
    scene.job(plan(1, job_retries=1), FAIL, PASS)
    facts = {"attempt": 0, "delay_sec": 0.0, "why": "no cause found, retry 1 of 1", "decided_by": "retry-count"}
    facts |= {"retries": {"accountable": 1, "transient": 0, "unseen": 0}, "history": None}
    assert scene.facts[JobEvent.JOB_RETRYING] == facts
    again = [each for each in scene.said if each.startswith(("attempt-", "job-", "place"))]
    assert again == [
        "attempt-started", "place 0", "attempt-completed 1", "job-retrying",
        "attempt-started", "place 1", "attempt-completed 0",
    ]  # fmt: skip


def test_every_attempt_starts_all_tasks_again(scene: Scene) -> None:
    scene.job(plan(job_retries=1), (succeeded(A), failed(B)), (succeeded(A), succeeded(B)))
    assert [each for each in scene.said if each.startswith("start ")] == ["start w:0", "start w:1"] * 2


def test_a_stop_while_an_attempt_runs_is_the_end(scene: Scene) -> None:
    outcome = scene.job(plan(1, job_retries=5), (scene.ask,), (stopped(A),))
    assert essence(outcome) == ("stopped", STOPPED_BY_USER, 0)
    assert outcome.text == "stopped by Ctrl-C"
    assert attempts(scene) == 1


def test_a_failure_and_a_stop_at_once_are_a_failure_that_is_not_tried_again(scene: Scene) -> None:
    outcome = scene.job(plan(1, job_retries=5), (failed(A), scene.ask))
    assert essence(outcome) == ("failed", 1, 0)
    assert attempts(scene) == 1


@pytest.mark.parametrize("event", [JobEvent.JOB_RETRYING])
def test_a_stop_between_two_attempts_is_the_end(scene: Scene, event: str) -> None:
    scene.when[event] = scene.ask
    outcome = scene.job(plan(1, job_retries=5), (failed(A, retry_after_sec=3000.0),))
    assert essence(outcome) == ("stopped", STOPPED_BY_USER, 0)
    assert outcome.text == "stopped by Ctrl-C"


def test_a_stop_as_the_next_attempt_begins_is_the_end(scene: Scene) -> None:
    def second() -> None:
        scene.when[JobEvent.ATTEMPT_STARTED] = scene.ask

    scene.when[JobEvent.JOB_RETRYING] = second
    outcome = scene.job(plan(1, job_retries=5), FAIL, (stopped(A),))
    assert essence(outcome) == ("stopped", STOPPED_BY_USER, 1)


def test_a_stop_of_a_job_that_has_just_succeeded_changes_nothing(scene: Scene) -> None:
    outcome = scene.job(plan(1), (succeeded(A), scene.ask))
    assert essence(outcome) == ("succeeded", 0, 0)


@pytest.mark.parametrize("gang", [True, False])
def test_a_full_disk_is_not_tried_again(scene: Scene, gang: bool) -> None:
    outcome = scene.job(plan(1, gang=gang, job_retries=5, task_retries=5), (failed(A, **FULL),))
    assert essence(outcome) == ("failed", 1, 0)
    assert (outcome.disk_full, outcome.text) == (True, "the file system is full")


def test_an_engine_that_has_no_place_for_a_retry_ends_the_job(scene: Scene) -> None:
    with pytest.raises(CannotRun, match="too few ports"):
        scene.job(plan(1, job_retries=1), FAIL, refuses={1: CannotRun("too few ports")})
    assert scene.said[-2:] == ["attempt-started", "place 1"]


def test_a_job_that_succeeds_in_spite_of_failures_states_so(scene: Scene) -> None:
    outcome = scene.job(plan(min_failed=2), (failed(A), succeeded(B)))
    assert outcome.state == "succeeded"
    assert outcome.text == "Succeeded by its completion policy; 1 of 2 tasks failed"
