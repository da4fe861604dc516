"""Tasks whose attempts have an agent and a place of their own each, as in a cluster of pods."""

from __future__ import annotations

import os
import signal

import pytest

from kedge.engines.cluster.base import GoneKind
from kedge.engines.cluster.settings import ClusterSettings
from kedge.runs import events
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, W1, ClusterScene, plan

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
