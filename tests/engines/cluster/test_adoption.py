"""A controller is killed, and another one goes on with what runs."""

from __future__ import annotations

import os
import signal

import pytest

from kedge import processes
from kedge.engines.base import Task
from kedge.engines.cluster.base import GoneKind
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller.stop_requests import Stops
from kedge.runs import events
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, W1, W2, ClusterScene, plan
from .test_agent_losses import WAITS, agent, go

SOON = ClusterSettings(unreachable_sec=0.5, report_sec=0.5, kill_sec=0.5)
BOTH = (W0, W1)


def ends(scene: ClusterScene) -> list[Task]:
    """The tasks whose end some controller has recorded."""
    found = events.read(scene.run.events)
    return [Task(one["role"], one["index"]) for one in found if one["event"] == "task-completed"]


def placed(scene: ClusterScene) -> int:
    return sum(one["event"] == "task-placed" for one in events.read(scene.run.events))


def test_a_running_job_goes_on(scene: ClusterScene) -> None:
    made = plan(WAITS, 2)
    with scene.first_controller(made) as kill:
        for task in BOTH:
            scene.wait_for_log(task, "ready")
        kill()
    with scene.recorded():
        outcome = scene.job(made, lambda: go(scene))
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0)
    assert [scene.log(task) for task in BOTH] == ["ready\ndone\n"] * 2, "nothing has started twice"
    assert sorted(ends(scene)) == [W0, W1]


def test_a_test_that_fails_between_two_controllers_leaves_no_agents(scene: ClusterScene) -> None:
    with scene.first_controller(plan(WAITS, 2)) as kill:
        for task in BOTH:
            scene.wait_for_log(task, "ready")
        kill()
    left = [each.pid for each in scene.known_agents()]
    assert len(left) == 2
    scene.end_agents()
    assert not any(map(processes.identify, left))


def test_what_ended_meanwhile_is_told_once(scene: ClusterScene) -> None:
    made = plan(WAITS, 2)
    with scene.first_controller(made) as kill:
        for task in BOTH:
            scene.wait_for_log(task, "ready")
        kill()
    go(scene)
    wait_until(lambda: all(map(scene.has_written_report, BOTH)), 120)
    with scene.recorded():
        outcome = scene.job(made)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0)
    assert sorted(ends(scene)) == [W0, W1]


def test_a_controller_killed_at_the_barrier_starts_all_once(scene: ClusterScene) -> None:
    """The third agent does not come to the first controller; the second one launches no agent twice."""
    made = plan("echo once", 3)
    with scene.first_controller(made) as kill:
        wait_until(lambda: placed(scene) >= 1, 120)
        kill()
    with scene.recorded():
        outcome = scene.job(made)
    assert outcome.state == State.SUCCEEDED
    assert [scene.log(task) for task in (W0, W1, W2)] == ["once\n"] * 3
    assert sorted(ends(scene)) == [W0, W1, W2]


def test_a_task_is_tried_again_by_the_second_controller(scene: ClusterScene) -> None:
    made = plan(f"{WAITS}; [ $FC_TASK_ATTEMPT_ID = 1 ]", gang=False, taskRetryCount=1)
    with scene.first_controller(made) as kill:
        scene.wait_for_log(W0, "ready")
        kill()
    with scene.recorded():
        outcome = scene.job(made, lambda: go(scene))
    assert outcome.state == State.SUCCEEDED
    assert scene.log(W0, task_attempt=1) == "ready\ndone\n"


def test_a_stop_of_the_second_controller_reaches_its_tasks(scene: ClusterScene) -> None:
    made = plan(WAITS)
    with scene.first_controller(made) as kill:
        scene.wait_for_log(W0, "ready")
        kill()
    with Stops() as stops, scene.recorded():
        stops.take("stop")
        outcome = scene.job(made, stops=stops)
    assert outcome.state == State.STOPPED
    assert scene.report(W0)["stopped_by"] == "TERM"


@pytest.mark.parametrize("comes_back", [True, False])
def test_an_agent_that_does_not_come_back_is_unreachable_until_the_cluster_says_more(
    scene: ClusterScene, comes_back: bool
) -> None:
    made = plan(WAITS)
    with scene.first_controller(made, SOON) as kill:
        scene.wait_for_log(W0, "ready")
        kill()
    frozen = 0

    def follow() -> None:
        wait_until(lambda: scene.seen("task-unreachable"), 120)
        assert not ends(scene)
        if comes_back:
            os.kill(frozen, signal.SIGCONT)
        else:
            scene.cluster.lose(W0, GoneKind.NODE_LOST, "Node n1 is DOWN")
        go(scene)

    with scene.recorded():
        scene.cluster = scene.known_cluster()
        frozen = agent(scene)
        os.kill(frozen, signal.SIGSTOP)
        scene.cluster.leave()
        outcome = scene.job(made, follow, settings=SOON)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0 if comes_back else 1)
    assert len(ends(scene)) == (1 if comes_back else 2)
    if not comes_back:  # the second controller has never heard of its agent
        assert "node was lost (node " in str(scene.seen("task-retrying") + scene.seen("task-completed"))
