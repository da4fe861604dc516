"""A controller is killed at any instant, and a second one goes on: nothing is decided, and no task started, twice."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest

from kedge.contract import DISK_FULL, TaskTimeLimit
from kedge.diagnose.model import PERMANENT, SURE, Diagnosis
from kedge.engines.base import HookRetrying, LimitReached, PreemptionNotice, Started, TaskHeld
from kedge.engines.controller import attempt as module
from kedge.engines.controller import time_limits
from kedge.plan.model import Plan
from kedge.testing.backend import failed, stopped, succeeded

from .scripted import A, B, C, plan
from .takeover import ASK, RELEASE, Happening, Instants, Takeovers
from .test_time_limits import OF_ATTEMPT, OF_ROLE, at_limit, limited

BOTH = (Started(A), Started(B))
BUG = Diagnosis("python_bug", PERMANENT, "likely", "user", "A bug.", ("Fix it.",), rule="x", frame="train.py:8")
NOT_SURE = {"diagnosis": BUG.to_json()}
OOM = {"diagnosis": BUG._replace(cause="gpu_oom", confidence=SURE).to_json()}
FULL = {"reason": DISK_FULL, "message": "the file system is full"}
END_AT_LIMIT = (LimitReached(A, OF_ATTEMPT.key), failed(A, 255, **at_limit(OF_ATTEMPT)))
LIMIT = TaskTimeLimit(OF_ROLE, 0.0)

Turns = tuple[tuple[Happening, ...], ...]
JOBS: dict[str, tuple[Plan, Turns]] = {
    "success": (plan(), (BOTH, (succeeded(A),), (succeeded(B),))),
    "failure": (plan(), (BOTH, (failed(A),), (stopped(B),))),
    "both-fail-at-once": (plan(), (BOTH, (failed(A, 2), failed(B, 3)))),
    "one-of-three": (plan(3, min_failed=2), ((failed(C), failed(A)), (stopped(B),))),
    "in-spite-of": (plan(min_failed=2), ((failed(A), succeeded(B)),)),
    "first-success": (plan(min_succeeded=1), (BOTH, (succeeded(B),), (stopped(A),))),
    "every": (plan(every=True), ((failed(B, 3),), (succeeded(A),))),
    "job-retries": (plan(job_retries=2), (*(((failed(A),), (stopped(B),)) * 2), (succeeded(A), succeeded(B)))),
    "job-retries-used": (plan(1, job_retries=1), ((failed(A),), (failed(A, 2),))),
    "transient": (plan(1, max_transient=2), ((failed(A, 143),),) * 3),
    "killed-unseen": (plan(1, job_retries=1), ((failed(A, 137, reason="perhaps-memory"),),) * 3),
    "same-bug-twice": (plan(1, job_retries=5), ((failed(A, **NOT_SURE),),) * 2),
    "sure": (plan(1, job_retries=5), ((failed(A, **OOM),),)),
    "task-retries": (plan(gang=False, task_retries=1), ((failed(A),), (succeeded(B),), (succeeded(A),))),
    "task-and-job-retries": (plan(1, gang=False, task_retries=1, job_retries=1), ((failed(A),),) * 4),
    "task-bug-twice": (plan(1, gang=False, task_retries=5), ((failed(A, **NOT_SURE),),) * 2),
    "both-tasks-retry": (
        plan(gang=False, task_retries=1), ((failed(B), failed(A)), (succeeded(A), succeeded(B))),
    ),
    "waiting-when-decided": (
        plan(gang=False, task_retries=1, min_succeeded=1), ((failed(A, retry_after_sec=3000.0),), (succeeded(B),)),
    ),
    "stop": (plan(job_retries=3), (BOTH, (ASK,), (stopped(B),), (stopped(A),))),
    "stop-and-kill": (plan(job_retries=3), (BOTH, (ASK,), (ASK,), (stopped(B), stopped(A)))),
    "kill-at-once": (plan(1), ((Started(A),), (ASK, ASK), (stopped(A),))),
    "stop-and-failure": (plan(1, job_retries=5), ((failed(A), ASK),)),
    "stop-after-failure": (plan(job_retries=5), ((failed(A),), (ASK,), (stopped(B),))),
    "stop-before-success": (plan(1), ((ASK,), (succeeded(A),))),
    "stop-while-a-task-waits": (
        plan(1, gang=False, task_retries=1), ((failed(A, retry_after_sec=3000.0),), (ASK,)),
    ),
    "full-disk": (plan(3, min_failed=-1), ((failed(B, **FULL),), (stopped(A), failed(C, **FULL)))),
    "full-disk-no-gang": (plan(gang=False, task_retries=3), ((failed(A, **FULL),), (stopped(B),))),
    "full-disk-while-one-waits": (
        plan(gang=False, task_retries=3), ((failed(A, retry_after_sec=3000.0),), (failed(B, **FULL),)),
    ),
    "attempt-limit": (limited(plan(1, job_retries=1), attempt=True), (END_AT_LIMIT, END_AT_LIMIT)),
    "attempt-limit-of-task": (
        limited(plan(1, gang=False, task_retries=1), attempt=True), (END_AT_LIMIT[:1], END_AT_LIMIT[1:], END_AT_LIMIT),
    ),
    "limits-of-two": (
        limited(plan(min_failed=-1), attempt=True),
        (BOTH, (LimitReached(A, OF_ATTEMPT.key), LimitReached(B, OF_ATTEMPT.key)),
         (failed(B, 255, **at_limit(OF_ATTEMPT)),), (failed(A, 255, **at_limit(OF_ATTEMPT)),)),
    ),
    "role-limit": (limited(plan(1, job_retries=1), role=0.0), ((Started(A),), (stopped(A),))),
    "job-limit": (limited(plan(1, job_retries=5), job=0.0), ((), (stopped(A, 137),))),
    "hold": (plan(), (BOTH, (TaskHeld(A, 60.0, 3, "it exited with 3"),), (failed(B, 4),), (failed(A, 3),))),
    "release": (plan(), (BOTH, (TaskHeld(A, 60.0, 3, "x"),), (RELEASE,), (failed(A, 3),), (stopped(B),))),
    "hold-of-one": (
        plan(min_failed=2),
        (BOTH, (TaskHeld(A, 60.0, 3, "x"),), (TaskHeld(B, 60.0, 3, "x"),), (failed(B),), (failed(A),)),
    ),
    "hold-and-stop": (plan(), (BOTH, (TaskHeld(A, 60.0, 3, "x"),), (failed(B, 4),), (ASK,), (failed(A, 3),))),
    "preempted": (plan(), (BOTH, (PreemptionNotice(B, "the node is drained"),), (failed(A, 3),), (stopped(B),))),
    "hook-retries": (plan(1), ((HookRetrying(A, "data", "busy", 2, 3, 0.5),), (Started(A),), (succeeded(A),))),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _without_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limits, "SLACK_SEC", 0.0)
    monkeypatch.setattr(module, "SLACK_SEC", 0.0)


class Jobs:
    """The same job again and again, each in a folder of its own."""

    def __init__(self, folder: Path, made: Plan, turns: Iterable[tuple[Happening, ...]], stored: bool) -> None:
        self._folder, self._made, self._turns, self._stored = folder, made, tuple(turns), stored
        self._numbers = count()

    def one(self) -> Takeovers:
        return Takeovers(self._folder / str(next(self._numbers)), self._made, self._turns, stored=self._stored)

    def instants(self) -> int:
        """The number of instants of a controller that nobody kills."""
        counted = Instants()
        self.one().controller(counted)
        return counted.seen


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "in-memory"])
@pytest.mark.parametrize("name", JOBS)
def test_a_controller_that_is_killed_at_any_instant_changes_nothing(name: str, stored: bool, tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, *JOBS[name], stored)
    alone, instants = jobs.one(), jobs.instants()
    expected = alone.run()
    assert instants > 10
    for at in range(1, instants + 1, 1 if stored else 3):
        job = jobs.one()
        assert job.run(at) == expected, f"killed at instant {at} of {instants}"
        assert job.requests >= alone.requests, f"killed at instant {at} of {instants}"


@pytest.mark.parametrize("name", JOBS)
def test_controllers_that_are_killed_again_and_again_change_nothing(name: str, tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, *JOBS[name], stored=True)
    expected, instants = jobs.one().run(), jobs.instants()
    chance = random.Random(name)
    for _ in range(8):
        kills = [chance.randint(1, instants) for _ in range(chance.randint(2, 6))]
        assert jobs.one().run(*kills) == expected, f"killed at {kills}"
