"""The hold of the first failed task of a run."""

from __future__ import annotations

import os
import signal

from kedge.engines.base import Started, TaskHeld
from kedge.runs.controller_lock import RELEASE
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.backend import failed, stopped, succeeded

from .scripted import Scene, plan
from .test_time_limits import A, B

HELD = TaskHeld(A, 60.0, 3, "the command exited with code 3")
STARTED = (Started(A), Started(B))


def test_nothing_is_decided_while_a_task_is_held(scene: Scene) -> None:
    outcome = scene.job(plan(), (*STARTED, HELD), (failed(B, 4),), (failed(A, 3),))
    assert [each for each in scene.said if "completed w" in each] == ["task-completed w:0 3", "task-completed w:1 4"]
    assert "stop w:1" not in scene.said
    assert outcome.state == State.FAILED
    facts = scene.facts[JobEvent.TASK_HELD]
    assert (facts["code"], facts["run"], facts["message"]) == (3, scene.run.id, HELD.message)


def test_only_the_first_failed_task_is_held(scene: Scene) -> None:
    scene.job(plan(), (*STARTED, HELD), (HELD._replace(task=B),), (failed(B, 4),), (failed(A, 3),))
    assert [each for each in scene.said if each.startswith("warn") or "held" in each] == ["task-held w:0", "warn w:1"]


def test_a_success_during_a_hold_counts_after_it(scene: Scene) -> None:
    scene.attempt(plan(), (*STARTED, HELD), (succeeded(B),), (failed(A, 3),))
    assert scene.states == [State.FAILED, State.SUCCEEDED]


def test_a_release_ends_the_hold(scene: Scene) -> None:
    def ask() -> None:
        os.kill(os.getpid(), RELEASE)

    scene.attempt(plan(), (*STARTED, HELD), (ask,), (failed(A, 3),), (stopped(B),))
    assert scene.said.index("task-released w:0") < scene.said.index("warn w:0")


def test_a_release_without_a_held_task_does_nothing(scene: Scene) -> None:
    scene.attempt(plan(1), (Started(A), lambda: signal.raise_signal(RELEASE)), (succeeded(A),))
    assert not any(each.startswith("warn") for each in scene.said)


def test_a_stop_ends_the_hold_and_asks_only_tasks_that_run(scene: Scene) -> None:
    outcome = scene.job(plan(), (*STARTED, HELD), (failed(B, 4),), (scene.ask,), (failed(A, 3),))
    assert [each for each in scene.said if each.startswith("stop ")] == ["stop w:0"]
    assert outcome.state == State.STOPPED
