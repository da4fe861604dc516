"""Tasks whose attempts have an agent and a place of their own each, as in a cluster of pods."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from kedge.engines.cluster.base import GoneKind
from kedge.engines.cluster.settings import ClusterSettings
from kedge.processes import descendants
from kedge.runs import events
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, W1, ClusterScene, plan
from .test_agent_losses import agent

SOON = ClusterSettings(unreachable_sec=0.5, report_sec=0.5, kill_sec=0.5, word_sec=0.5)
WAITS = "echo ready $FC_TASK_ATTEMPT_ID; until [ -e $TEST_SHARED/go ]; do sleep 0.05; done; echo done"


@pytest.fixture
def mirrored() -> int:
    return 1 << 20


@pytest.fixture
def scene(scene: ClusterScene) -> ClusterScene:
    scene.relaunches = True
    return scene


def test_a_task_is_tried_again_in_another_place(scene: ClusterScene) -> None:
    made = plan("echo $FC_TASK_ATTEMPT_ID; [ $FC_TASK_ATTEMPT_ID = 2 ]", gang=False, taskRetryCount=2)
    assert scene.job(made).state == State.SUCCEEDED
    assert [scene.log(W0, task_attempt=n) for n in range(3)] == ["0\n", "1\n", "2\n"]
    launched = [agent for agent in scene.cluster.launched if agent.task == W0]
    assert [agent.task_attempt for agent in launched] == [0, 1, 2]
    assert scene.cluster.killed == []
    assert not scene.seen("note")


def test_the_others_go_on_meanwhile(scene: ClusterScene) -> None:
    """A task that is tried again gets its own ports, and knows those of the others."""
    command = """
        echo $PAI_PORT_LIST_w_0_x $PAI_PORT_LIST_w_1_x
        [ $PAI_TASK_INDEX = 1 ] || { until [ -e $TEST_SHARED/go ]; do sleep 0.05; done; exit 0; }
        [ $FC_TASK_ATTEMPT_ID = 1 ] && touch $TEST_SHARED/go"""
    made = plan(command, 2, gang=False, taskRetryCount=1, resources={"ports": {"x": 1}})
    assert scene.job(made).state == State.SUCCEEDED
    first, again = scene.log(W0).split(), scene.log(W1, task_attempt=1).split()
    assert first[0] == again[0]
    assert scene.log(W1).split() == first
    assert [len(scene.seen(name)) for name in ("task-launched", "task-retrying")] == [3, 1]


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_another_controller_goes_on_with_a_further_attempt(scene: ClusterScene, lost: bool) -> None:
    """The first one is killed while a second attempt runs; what it has stored of that may be lost with it."""
    made = plan(f"[ $FC_TASK_ATTEMPT_ID = 0 ] && exit 1; {WAITS}", 2, gang=False, taskRetryCount=1)
    with scene.first_controller(made) as kill:
        for task in (W0, W1):
            scene.wait_for_log(task, "ready", task_attempt=1)
        kill()
    if lost:
        shutil.rmtree(scene.run.attempt(0))
    (scene.shared / "go").touch()
    with scene.recorded():
        outcome = scene.job(made)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0)
    for task in (W0, W1):
        assert scene.log(task, task_attempt=1) == "ready 1\ndone\n"
    assert ends(scene) == [("task-completed", 0), ("task-completed", 1), ("task-retrying", 0), ("task-retrying", 1)]
    assert scene.cluster.killed == []


def ends(scene: ClusterScene) -> list[tuple[str, int]]:
    found = ((one["event"], one.get("index", -1)) for one in events.read(scene.run.events))
    return sorted(one for one in found if one[0] in ("task-completed", "task-retrying"))


def test_a_controller_is_killed_again_and_again(scene: ClusterScene) -> None:
    """At the moments at which a further attempt is decided, launched, and joins."""
    made = plan("echo $FC_TASK_ATTEMPT_ID; [ $FC_TASK_ATTEMPT_ID = 3 ]", gang=False, taskRetryCount=3)
    for moment, number in (("task-retrying", 1), ("task-launched", 3), ("task-placed", 4)):
        with scene.first_controller(made, SOON) as kill:
            wait_until(lambda name=moment, least=number: count(scene, name) >= least, 30)
            kill()
    with scene.recorded():
        outcome = scene.job(made, settings=SOON)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0)
    assert [scene.log(W0, task_attempt=n) for n in range(4)] == ["0\n", "1\n", "2\n", "3\n"]
    assert ends(scene) == [("task-completed", 0), *[("task-retrying", 0)] * 3]


def count(scene: ClusterScene, name: str) -> int:
    return sum(one["event"] == name for one in events.read(scene.run.events))


def test_an_agent_that_comes_back_late_is_sent_away(scene: ClusterScene) -> None:
    """Its node was out of reach, and the cluster has given it up: it may neither speak for the task nor go on."""
    late = 0

    def lose() -> None:
        nonlocal late
        scene.wait_for_log(W0, "ready 0")
        scene.cluster.strays = True
        late = scene.cluster.agents[W0].pid
        frozen = [late, agent(scene)]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        scene.cluster.say(W0, GoneKind.NODE_LOST, "the node is gone")
        scene.wait_for_log(W0, "ready 1", task_attempt=1)
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not descendants(late), 30)
        (scene.shared / "go").touch()

    made = plan(f"trap '' TERM; {WAITS}", gang=False, taskRetryCount=1)
    outcome = scene.job(made, lose, SOON)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0)
    assert scene.log(W0, task_attempt=1) == "ready 1\ndone\n"
    assert "done" not in scene.log(W0)
    retried = scene.seen("task-retrying")
    assert [one["code"] for one in retried] == [-1001]
