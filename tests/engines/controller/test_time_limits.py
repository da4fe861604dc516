"""Time limits in the controller: what supervisors report, and what they do not end by themselves."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from kedge.contract import (
    JOB_TIME_LIMIT,
    NOT_RENEWED,
    PARTITION_TIME_LIMIT,
    STOPPED_BY_TIME_LIMIT,
    STOPPED_BY_USER,
    TIME_LIMIT,
    TaskTimeLimit,
)
from kedge.diagnose.decide.limits import of_time_limit
from kedge.engines.base import LimitReached, PreemptionNotice, Started, StopAnnounced, Task
from kedge.engines.controller import attempt as module
from kedge.engines.controller import time_limits
from kedge.engines.controller.time_limits import reached
from kedge.plan.model import Plan
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.backend import failed, stopped, succeeded

from .scripted import Scene, plan, two_roles

A, B = Task("w", 0), Task("w", 1)
OF_ROLE = "extras.kedge.taskRoles.w.timeLimit"
OF_ATTEMPT = TaskTimeLimit("extras.kedge.attemptTimeLimit", 60.0)
LIMIT_SEC = 600.0


class Clock:
    """time.monotonic() of a test, which it can move forward: what happens before a limit does so on any machine."""

    def __init__(self) -> None:
        self._real, self._moved = time.monotonic, 0.0

    def __call__(self) -> float:
        return self._real() + self._moved

    def pass_limit(self) -> None:
        self._moved += 2 * LIMIT_SEC


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


@pytest.fixture(autouse=True)
def _without_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limits, "SLACK_SEC", 0.0)
    monkeypatch.setattr(module, "SLACK_SEC", 0.0)


def limited(made: Plan, *, job: float | None = None, role: float | None = None, attempt: bool = False) -> Plan:
    """The plan with limits: those of the job and the role in seconds."""
    of_role = role if role is None else TaskTimeLimit(OF_ROLE, role)
    roles = tuple(
        replace(one, time_limit=of_role, attempt_time_limit=OF_ATTEMPT if attempt else None) if one.name == "w" else one
        for one in made.roles
    )
    return replace(made, roles=roles, time_limit=job if job is None else TaskTimeLimit(JOB_TIME_LIMIT, job))


def at_limit(limit: TaskTimeLimit) -> dict[str, Any]:
    """The facts in the report of a task that its supervisor has stopped at a limit."""
    found = of_time_limit(limit).to_json()
    return {"reason": TIME_LIMIT, "time_limit": limit.key, "message": limit.message, "diagnosis": found}


def test_the_limit_of_an_allocation_is_not_the_time_that_its_tasks_had() -> None:
    """They are stopped before Slurm's limit."""
    assert of_time_limit(TaskTimeLimit(PARTITION_TIME_LIMIT, 70.0)).meaning == (
        "The job's allocation was nearly over (the partition's time limit): after 1 min 10 s kedge stopped the tasks, "
        "so that they could end in order before Slurm kills them."
    )


@pytest.mark.parametrize("key", [PARTITION_TIME_LIMIT, NOT_RENEWED])
def test_no_allocation_has_a_limit_of_the_time_that_its_tasks_had(key: str) -> None:
    assert reached(TaskTimeLimit(key, 70.0)) == f"the time of the allocation is nearly over ({key})"
    assert "time limit of 1 min 10 s" not in of_time_limit(TaskTimeLimit(key, 70.0)).meaning


def test_a_run_whose_time_is_over_is_stopped_and_not_tried_again(scene: Scene) -> None:
    made = limited(plan(job_retries=5, max_transient=5), job=0.0)
    outcome = scene.job(made, (Started(A), stopped(A, 137)))
    assert (outcome.state, outcome.code) == (State.FAILED, STOPPED_BY_TIME_LIMIT)
    assert outcome.text == "stopped after 0 s (extras.kedge.timeLimit)"
    assert (outcome.judged.task, outcome.judged.diagnosis and outcome.judged.diagnosis.cause) == (None, "time_limit")
    assert scene.said.count("stop w:0") == 1
    assert "start w:1" not in scene.said
    assert JobEvent.JOB_RETRYING not in scene.said


def test_tasks_that_had_failed_before_the_time_was_over_are_named_after_it(scene: Scene) -> None:
    made = limited(plan(min_failed=-1), job=0.05)
    end = failed(B, diagnosis={**of_time_limit(OF_ATTEMPT).to_json(), "cause": "cuda_oom"})
    limit = TaskTimeLimit(JOB_TIME_LIMIT, 0.05, 0.0)
    outcome = scene.job(made, (Started(A), Started(B), end), (failed(A, 255, **at_limit(limit)),))
    assert [(fold.kind, fold.tasks) for fold in outcome.judged.others] == [("cuda_oom", ("w:1",))]


def test_the_pause_before_a_retry_ends_with_the_time_of_the_run(scene: Scene) -> None:
    made = limited(plan(1), job=0.05)
    made = replace(made, retry=replace(made.retry, backoff_sec=60.0))
    outcome = scene.job(made, (failed(A, 137),))
    assert outcome.code == STOPPED_BY_TIME_LIMIT
    assert [each for each in scene.said if each.startswith("start")] == ["start w:0"]


def test_a_task_whose_supervisor_does_not_end_it_is_stopped_at_the_limit_of_its_role(scene: Scene) -> None:
    made = two_roles((1, 1, -1), (1, 1, -1))
    others = Task("ps", 0)
    outcome = scene.job(limited(made, role=0.0), (Started(A), Started(others)), (stopped(A),), (stopped(others),))
    assert (outcome.judged.task, outcome.text) == ("w:0", f"w:0: stopped after 0 s ({OF_ROLE}); {_why(scene)}")
    assert scene.said.index("stop w:0") < scene.said.index("stop ps:0")


def _why(scene: Scene) -> str:
    return "not retried: time_limit is permanent, a retry would fail the same way"


def test_a_task_that_waits_for_a_retry_fails_at_the_limit_of_its_role(scene: Scene, clock: Clock) -> None:
    made = limited(plan(1, gang=False, max_transient=5), role=LIMIT_SEC)
    made = replace(made, retry=replace(made.retry, backoff_sec=3 * LIMIT_SEC))
    outcome = scene.job(made, (failed(A, 137),), (clock.pass_limit,))
    assert outcome.text.startswith(f"w:0: stopped after 10 min ({OF_ROLE})")
    assert [each for each in scene.said if each.startswith("start")] == ["start w:0"]


def test_the_first_of_several_tasks_at_the_limit_of_their_role_may_end_the_attempt(scene: Scene, clock: Clock) -> None:
    made = limited(plan(2, gang=False, max_transient=5), role=LIMIT_SEC)
    made = replace(made, retry=replace(made.retry, backoff_sec=3 * LIMIT_SEC))
    turns = (failed(A, 137), failed(B, 137)), (clock.pass_limit,)
    assert scene.attempt(made, *turns).outcome == State.FAILED
    assert scene.states == [State.FAILED, State.STOPPED]


@pytest.mark.parametrize("gang", [True, False])
def test_an_attempt_at_its_limit_is_tried_again_as_often_as_the_user_asked(scene: Scene, gang: bool) -> None:
    made = limited(plan(1, gang=gang, job_retries=2 if gang else 0, task_retries=2), attempt=True)
    end = (LimitReached(A, OF_ATTEMPT.key), failed(A, 255, **at_limit(OF_ATTEMPT)))
    outcome = scene.job(made, end, end, end)
    assert outcome.text.startswith("w:0: stopped after 1 min (extras.kedge.attemptTimeLimit); not retried: ")
    assert len([each for each in scene.said if each.startswith("start ")]) == 3


def test_a_stop_after_a_retry_has_nothing_to_do_with_the_limit_before(scene: Scene) -> None:
    made = limited(plan(1, gang=False, task_retries=1), attempt=True)
    end = failed(A, 255, **at_limit(OF_ATTEMPT))
    outcome = scene.job(made, (LimitReached(A, OF_ATTEMPT.key), end), (Started(A), scene.ask), (stopped(A),))
    assert (outcome.state, scene.facts[JobEvent.TASK_COMPLETED]["code"]) == (State.STOPPED, STOPPED_BY_USER)


def test_a_peer_that_fails_because_another_task_is_stopped_at_a_limit_is_not_the_root(scene: Scene) -> None:
    lost = {**of_time_limit(OF_ATTEMPT).to_json(), "cause": "cuda_error", "confidence": "likely"}
    end = failed(A, 255, **at_limit(OF_ATTEMPT), limit_reached="2026-01-01T00:00:00.000000000Z")
    peer = failed(B, 1, diagnosis=lost, ended="2026-01-01T00:00:01.000000000Z")
    outcome = scene.job(limited(plan(), attempt=True), (LimitReached(A, OF_ATTEMPT.key),), (peer,), (end,))
    assert outcome.judged.task == "w:0"


def test_a_peer_that_ends_first_does_not_make_the_limit_of_an_attempt_transient(scene: Scene) -> None:
    end = failed(A, 255, **at_limit(OF_ATTEMPT), limit_reached="2026-01-01T00:00:00.000000000Z")
    outcome = scene.job(limited(plan(), attempt=True), (LimitReached(A, OF_ATTEMPT.key),), (failed(B, 143),), (end,))
    assert outcome.text == "w:0: stopped after 1 min (extras.kedge.attemptTimeLimit); not retried: jobRetryCount is 0"


def test_a_limit_of_months_is_no_problem(scene: Scene) -> None:
    made = limited(plan(1), job=3e7, role=3e7)
    verdict = scene.attempt(made, (Started(A), lambda: scene.judging.load()), (), (succeeded(A),))
    assert verdict.outcome == State.SUCCEEDED


def test_an_announcement_of_a_limit_is_one_event_for_all_tasks(scene: Scene) -> None:
    told = [StopAnnounced(task, OF_ROLE, "it ends in 5 min") for task in (A, B)]
    scene.attempt(plan(), (Started(A), *told), (failed(A),), (stopped(B),))
    assert scene.said.count("stop-announced w:0") == 1
    assert "stop-announced w:1" not in scene.said


@pytest.mark.parametrize(("gang", "warned"), [(True, ["warn w:0", "warn w:1"]), (False, ["warn w:1"])])
def test_a_preemption_notice_reaches_all_tasks_that_are_lost_with_it(
    scene: Scene, gang: bool, warned: list[str]
) -> None:
    turns = (Started(A), Started(B)), (PreemptionNotice(B, "the node is drained"),)
    scene.attempt(plan(gang=gang), *turns, (failed(A, 3),), (stopped(B),))
    assert [each for each in scene.said if each.startswith("warn")] == warned
    place = {} if gang else {"role": "w", "index": 1}
    assert scene.facts[JobEvent.STOP_ANNOUNCED] == {**place, "by": "notice", "text": "the node is drained"}


def test_a_notice_reaches_a_task_whose_command_may_run_already(scene: Scene) -> None:
    """The word of its start comes after the notice. The next attempt of the task is not warned."""
    notice = PreemptionNotice(B, "the node is drained")
    scene.attempt(plan(gang=False), (Started(A), notice), (Started(B),), (failed(A, 3),), (stopped(B),))
    assert [each for each in scene.said if each.startswith("warn")] == ["warn w:1"]
