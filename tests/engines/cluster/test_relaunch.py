"""Tasks whose attempts have an agent and a place of their own each, as in a cluster of pods."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from kedge import processes
from kedge.contract import PERHAPS_MEMORY
from kedge.engines.cluster.base import GoneKind
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller.stop_requests import Stops
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
            wait_until(lambda name=moment, least=number: count(scene, name) >= least, 120)
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
        wait_until(lambda: not descendants(late), 120)
        (scene.shared / "go").touch()

    made = plan(f"trap '' TERM; {WAITS}", gang=False, taskRetryCount=1)
    outcome = scene.job(made, lose, SOON)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0)
    assert scene.log(W0, task_attempt=1) == "ready 1\ndone\n"
    assert "done" not in scene.log(W0)
    retried = scene.seen("task-retrying")
    assert [one["code"] for one in retried] == [-1001]


@pytest.mark.parametrize("first", ["cluster", "agent"])
def test_an_evicted_task_that_exits_with_0_has_not_succeeded(scene: ClusterScene, first: str) -> None:
    """Its supervisor gets the signal of somebody else, and the command ends well. The cluster says so before or
    after."""

    def evict() -> None:
        scene.wait_for_log(W0, "ready 0")
        if first == "cluster":
            scene.cluster.say(W0, GoneKind.PREEMPTED, "the node was drained")
        os.kill(scene.cluster.agents[W0].pid, signal.SIGTERM)  # the keeper passes it on
        if first == "agent":
            wait_until(lambda: '"exit_code"' in _text(scene.task_file(W0, "report.json")), 120)
            scene.cluster.say(W0, GoneKind.PREEMPTED, "the node was drained")
        (scene.shared / "go").touch()

    made = plan(f"trap 'exit 0' TERM; {WAITS}", gang=False, taskRetryCount=0)
    outcome = scene.job(made, evict, SOON._replace(word_sec=30.0, report_sec=30.0))
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 0)
    (retried,) = scene.seen("task-retrying")
    assert (retried["code"], retried["why"]) == (-1003, "preempted is transient")
    assert scene.report(W0)["stopped_by"] == "TERM", "what the supervisor has said stays in its file"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_failure_before_the_eviction_stays(scene: ClusterScene) -> None:
    def evict() -> None:
        wait_until(
            lambda: scene.seen("task-completed") or "exit_code" in _text(scene.task_file(W0, "report.json")), 120
        )
        scene.cluster.say(W0, GoneKind.PREEMPTED, "the node was drained")

    outcome = scene.job(plan("echo ValueError: no >&2; exit 3"), evict, SOON)
    assert outcome.code == 255
    assert scene.seen("task-completed")[0]["user_exit_code"] == 3


def test_the_cluster_explains_an_end_without_a_report(scene: ClusterScene) -> None:
    """The supervisor is killed with all of its container; the word about that comes a moment later."""

    def kill() -> None:
        scene.wait_for_log(W0, "ready 0")
        kill_all_but_the_agent(scene)
        scene.cluster.say(W0, GoneKind.OUT_OF_MEMORY, "OOMKilled")

    scene.job(plan(WAITS), kill, SOON._replace(word_sec=30.0, report_sec=2.0))
    (end,) = scene.seen("task-completed")
    assert end["code"] == -1200
    assert "the cluster killed the task for lack of memory (node n1): OOMKilled" in end["message"]


def kill_all_but_the_agent(scene: ClusterScene) -> None:
    """As if the container of the task ran out of memory."""
    agent_pid = agent(scene)
    below = [each.pid for each in descendants(scene.cluster.agents[W0].pid) if each.pid != agent_pid]
    assert below
    for pid in below:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_an_end_without_a_report_and_without_a_word(scene: ClusterScene) -> None:
    def kill() -> None:
        scene.wait_for_log(W0, "ready 0")
        kill_all_but_the_agent(scene)
        wait_until(lambda: scene.seen("task-completed"), 120)
        (scene.shared / "go").touch()

    scene.job(plan(WAITS), kill, SOON)
    end = scene.seen("task-completed")[0]
    assert (end["code"], end["reason"]) == (137, PERHAPS_MEMORY)


def test_places_are_given_back_when_not_all_come(scene: ClusterScene) -> None:
    """Two jobs may wait for each other's places. Then each waits for a while without any, and a stop ends that."""
    scene.absent.add(W1)
    first: list[processes.Process] = []

    def follow() -> None:
        wait_until(lambda: scene.seen("task-placed"), 120)
        first.append(processes.Process(scene.cluster.agents[W0].pid, scene.cluster.agents[W0].start_time))
        wait_until(lambda: scene.seen("job-retrying"), 120)
        wait_until(lambda: not processes.is_alive(first[0]), 120)
        stops.take("stop")

    with Stops() as stops:
        outcome = scene.job(plan("true", 2), follow, SOON._replace(barrier_sec=2.0), stops)
    assert outcome.state == State.STOPPED
    (retrying,) = scene.seen("job-retrying")
    assert 60 <= retrying["delay_sec"] <= 900
    assert "transient" in retrying["why"]
    assert [end["code"] for end in scene.seen("task-completed")] == [251, -220]


def test_a_task_that_can_never_come_fails_at_once(scene: ClusterScene) -> None:
    def say() -> None:
        wait_until(lambda: scene.seen("task-placed"), 120)
        scene.cluster.give_up(W1, GoneKind.NOT_STARTED, "its image does not exist")

    scene.absent.add(W1)
    outcome = scene.job(plan("true", 2), say, SOON)
    assert (outcome.state, outcome.code) == (State.FAILED, -310)
    ends = scene.seen("task-completed")
    assert (ends[0]["index"], ends[0]["message"]) == (
        1,
        "the cluster could not start the task: its image does not exist",
    )
