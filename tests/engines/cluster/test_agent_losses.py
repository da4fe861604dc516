"""Agents, connections and nodes that are lost, and what becomes of their tasks."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import PERHAPS_MEMORY
from kedge.engines.cluster.base import GoneKind
from kedge.engines.cluster.member import Member
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller.stop_requests import Stops
from kedge.plan.model import RolePlan
from kedge.processes import descendants
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, W1, W2, ClusterScene, plan

# It ends once the test has made the file in the job's folder.
WAITS = "echo ready; until [ -e $TEST_SHARED/go ]; do sleep 0.05; done; echo done"
SOON = ClusterSettings(unreachable_sec=0.5, report_sec=0.5, kill_sec=0.5)


def go(scene: ClusterScene) -> None:
    (scene.shared / "go").touch()


def agent(scene: ClusterScene, besides: int = 0) -> int:
    """The pid of the first task's agent: the program of the keeper in a session of its own."""
    keeper = scene.cluster.agents[W0].pid

    def found() -> int:
        pids = [each.pid for each in descendants(keeper) if is_agent(each.pid)]
        return next((pid for pid in pids if pid != besides), 0)

    return wait_until(found, 120)


def is_agent(pid: int) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"runtime/agent" in file.read() and os.getsid(pid) == pid
    return False


def test_an_agent_that_is_killed_is_started_again_and_the_task_goes_on(scene: ClusterScene) -> None:
    def kill() -> None:
        scene.wait_for_log(W0, "ready")
        killed = agent(scene)
        os.kill(killed, signal.SIGKILL)
        agent(scene, besides=killed)
        go(scene)

    outcome = scene.job(plan(WAITS), kill)
    assert outcome.state == State.SUCCEEDED
    assert scene.log(W0) == "ready\ndone\n"
    assert len(scene.seen("task-completed")) == 1


def test_a_stop_reaches_a_task_whose_agent_was_killed_meanwhile(scene: ClusterScene) -> None:
    def stop() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(agent(scene), signal.SIGKILL)
        stops.take("stop")

    with Stops() as stops:
        outcome = scene.job(plan(WAITS), stop, stops=stops)
    assert outcome.state == State.STOPPED
    assert scene.report(W0)["stopped_by"] == "TERM"


def test_all_that_is_left_of_a_task_ends_with_its_keeper(scene: ClusterScene) -> None:
    def kill() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(scene.cluster.agents[W0].pid, signal.SIGKILL)
        wait_until(lambda: scene.seen("task-completed"), 120)
        go(scene)

    outcome = scene.job(plan(WAITS), kill, settings=SOON)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 1), "tried again once: it may have been memory"
    end = scene.seen("task-completed")[0]
    assert (end["code"], end["reason"]) == (137, PERHAPS_MEMORY)
    assert "the task's supervisor on node n1 was killed by SIGKILL" in end["message"]


@pytest.mark.parametrize("kind", [GoneKind.NODE_LOST, GoneKind.PREEMPTED])
def test_a_place_that_is_lost_is_another_try_of_the_job(scene: ClusterScene, kind: GoneKind) -> None:
    def lose() -> None:
        scene.wait_for_log(W0, "ready")
        scene.cluster.lose(W0, kind, "says the cluster")
        go(scene)

    made = plan(WAITS, 2, gang=False, taskRetryCount=3)
    outcome = scene.job(made, lose, settings=SOON)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 1)
    first = scene.seen("attempt-completed")[0]["root"]
    assert first["task"] == "w:0"
    assert first["behavior"] == "transient"
    assert not scene.seen("task-retrying")


def test_a_report_that_was_written_counts_whatever_the_cluster_says(scene: ClusterScene) -> None:
    """The task has ended well, and then its node was lost, before the agent could tell."""
    if scene.mirrored is not None:
        pytest.skip("without a shared folder the report was lost with the node")

    def lose() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(agent(scene), signal.SIGSTOP)
        go(scene)
        wait_until(scene.task_file(W0, "report.json").exists, 120)
        scene.cluster.lose(W0, GoneKind.NODE_LOST)

    outcome = scene.job(plan(WAITS), lose, settings=SOON)
    assert outcome.state == State.SUCCEEDED
    assert len(scene.seen("task-completed")) == 1


def test_an_unreachable_task_that_comes_back_has_missed_nothing(scene: ClusterScene) -> None:
    def hang() -> None:
        scene.wait_for_log(W0, "ready")
        frozen = agent(scene)
        os.kill(frozen, signal.SIGSTOP)
        wait_until(lambda: scene.seen("task-unreachable"), 120)
        go(scene)
        wait_until(lambda: scene.has_written_report(W0), 120)
        assert not scene.seen("task-completed")
        os.kill(frozen, signal.SIGCONT)

    outcome = scene.job(plan(WAITS), hang, settings=SOON)
    assert outcome.state == State.SUCCEEDED
    unreachable, *more = scene.seen("task-unreachable")  # more on a busy machine
    assert unreachable["text"].startswith("no message from it for ")
    assert unreachable["text"].endswith("; it may still be running on node n1")
    assert len(scene.seen("task-reachable")) == 1 + len(more)
    assert len(scene.seen("task-completed")) == 1


def test_an_unreachable_task_ends_when_the_cluster_says_so(scene: ClusterScene) -> None:
    def hang() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(agent(scene), signal.SIGSTOP)
        wait_until(lambda: scene.seen("task-unreachable"), 120)
        assert not scene.seen("task-completed")
        scene.cluster.lose(W0, GoneKind.NODE_LOST, "Node n1 is DOWN")
        go(scene)

    outcome = scene.job(plan(WAITS), hang, settings=SOON)
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 1)
    end = scene.seen("task-completed")[0]
    message, _, missing = end["message"].partition("; ")
    assert (end["code"], message) == (-1001, "the task's node was lost (node n1): Node n1 is DOWN")
    assert ("nothing is known after byte" in missing) == (scene.mirrored is not None)


def test_a_task_whose_node_comes_back_after_it_was_given_up_does_not_go_on(scene: ClusterScene) -> None:
    """The node was only out of reach. The other task still runs, so the attempt of the job is not over."""

    def hang() -> None:
        for task in (W0, W1):
            scene.wait_for_log(task, "ready")
        keeper, frozen = scene.cluster.agents[W0].pid, agent(scene)
        os.kill(frozen, signal.SIGSTOP)
        wait_until(lambda: scene.seen("task-unreachable"), 120)
        scene.cluster.say(W0, GoneKind.NODE_LOST, "Node n1 is DOWN")
        wait_until(lambda: scene.seen("task-completed"), 120)
        assert running(keeper) & {"sh", "bash", "sleep"}
        os.kill(frozen, signal.SIGCONT)
        wait_until(lambda: not running(keeper) & {"sh", "bash", "sleep"}, 120)
        go(scene)

    made = plan(WAITS, 2, gang=False, completion={"minFailedInstances": 2, "minSucceededInstances": -1})
    outcome = scene.job(made, hang, settings=SOON)
    assert [(end["index"], end["code"]) for end in scene.seen("task-completed")] == [(0, -1001), (1, 0)]
    assert outcome.attempt == 0


def test_what_an_agent_that_knows_nothing_of_it_still_runs_is_ended(scene: ClusterScene) -> None:
    """The note of the one before was lost, as on a full disk. The attempt of the job goes on."""

    def lose() -> None:
        for task in (W0, W1):
            scene.wait_for_log(task, "ready")
        keeper, killed = scene.cluster.agents[W0].pid, agent(scene)
        (note,) = (path for path in Path("/proc", str(killed), "fd").iterdir() if path.readlink().name == "status")
        (note.readlink().parents[1] / "state.json").unlink()
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not running(keeper), 120)
        go(scene)

    made = plan(WAITS, 2, gang=False, completion={"minFailedInstances": 2, "minSucceededInstances": -1})
    scene.job(made, lose, settings=SOON)
    first, second = scene.seen("task-completed")
    assert (first["index"], second["index"], second["code"]) == (0, 1, 0)
    assert "its successor knows nothing of the task" in first["message"]


def running(keeper: int) -> set[str]:
    """The names of the programs below a keeper."""
    found = set()
    for each in descendants(keeper):
        with suppress(OSError):
            found.add(Path(f"/proc/{each.pid}/comm").read_text().strip())
    return found


def test_the_cluster_kills_what_an_agent_does_not(scene: ClusterScene) -> None:
    def hang() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(agent(scene), signal.SIGSTOP)
        scene.cluster.soon(lambda: scene.backend.kill(W0))
        wait_until(lambda: scene.seen("task-completed"), 120)
        go(scene)

    outcome = scene.job(plan(WAITS), hang, settings=SOON)
    assert outcome.state == State.SUCCEEDED
    assert scene.cluster.killed == [W0]
    message, _, missing = scene.seen("task-completed")[0]["message"].partition("; ")
    assert message == "stopped by KILL: it did not end by itself"
    assert ("nothing is known after byte" in missing) == (scene.mirrored is not None)


def test_an_agent_that_ends_before_the_barrier_fails_it_at_once(scene: ClusterScene) -> None:
    def lose() -> None:
        wait_until(lambda: len(scene.seen("task-placed")) == 2, 120)
        scene.absent.clear()
        scene.cluster.lose(W1, GoneKind.NODE_LOST, "Node n2 is DOWN")

    scene.absent = {W2}
    outcome = scene.job(plan("true", 3), lose, settings=SOON)
    assert outcome.state == State.SUCCEEDED, "a lost node is tried again"
    first = scene.seen("task-completed")[0]
    assert (first["index"], first["code"]) == (1, -1001)


def test_an_agent_that_ends_as_the_last_one_comes_fails_the_barrier(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, ready = Member.reserved, []

    def reserved(member: Member, said: Mapping[str, Any], role: RolePlan) -> None:
        real(member, said, role)
        ready.append(member.task)
        if len(ready) == 2:  # in the same turn
            scene.cluster.say(ready[0], GoneKind.NODE_LOST, "Node n1 is DOWN")

    monkeypatch.setattr(Member, "reserved", reserved)
    assert scene.job(plan("echo started", 2)).state == State.SUCCEEDED, "a lost node is tried again"
    assert [facts["attempt"] for facts in scene.seen("barrier-passed")] == [1]
    assert not any(scene.log(task) for task in (W0, W1))


@contextmanager
def _relay(port: int) -> Iterator[tuple[int, list[socket.socket]]]:
    """Carries connections to a port; who cuts them closes the sockets in the list."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_: list[socket.socket] = []

    def carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                open_.extend((near, far))
                threading.Thread(target=carry, args=(near, far), daemon=True).start()
                threading.Thread(target=carry, args=(far, near), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], open_
    finally:
        listener.close()
        for each in open_:
            each.close()


def test_a_connection_that_is_cut_is_taken_up_again(scene: ClusterScene) -> None:
    relays = []

    def through(port: int) -> int:
        relay = _relay(port)
        relays.append((relay, *relay.__enter__()))
        return relays[-1][1]

    def cut() -> None:
        for task in (W0, W1, W2):
            scene.wait_for_log(task, "ready")
        sockets = relays[0][2]
        for _ in range(3):
            there = len(sockets)
            for each in list(sockets):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            wait_until(lambda there=there: len(sockets) == there + 6, 120)  # all three have come again
        go(scene)

    scene.link_port = through
    outcome = scene.job(plan(WAITS, 3), cut)
    relays[0][0].__exit__(None, None, None)
    assert outcome.state == State.SUCCEEDED
    assert len(scene.seen("task-completed")) == 3
