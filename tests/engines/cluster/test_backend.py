"""Whole jobs on a cluster that is this machine: the ordinary ways."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace

import pytest

from kedge.contract import STOPPED_BY_COMPLETION
from kedge.engines.cluster import barrier, owner_client
from kedge.engines.cluster.member import Member
from kedge.engines.cluster.settings import ClusterSettings
from kedge.engines.controller.stop_requests import Stops
from kedge.link.messages import Hello
from kedge.resolve.model import Secrets
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, W1, W2, ClusterScene, plan


def test_a_job_succeeds(scene: ClusterScene) -> None:
    outcome = scene.job(plan("echo out of $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", 2))
    assert (outcome.state, outcome.code) == (State.SUCCEEDED, 0)
    assert [scene.log(task) for task in (W0, W1)] == ["out of 0\n", "out of 1\n"]
    assert scene.report(W0)["exit_code"] == 0
    assert {facts["node"] for facts in scene.seen("task-placed")} == {"n1", "n2"}
    beat = json.loads(scene.files.heartbeat.read_text())
    assert beat["pid"] == os.getpid()


def test_every_task_knows_all_addresses_and_ports(scene: ClusterScene) -> None:
    command = (
        "echo $PAI_HOST_IP_w_0 $PAI_HOST_IP_w_1 $PAI_PORT_LIST_w_0_x $PAI_PORT_LIST_w_1_x; echo $PAI_CONTAINER_HOST_IP"
    )
    scene.job(plan(command, 2, resources={"ports": {"x": 2}}))
    peers = json.loads(scene.run.peers(0).read_text())["roles"]["w"]
    everybody = " ".join(
        [*(peer["host"] for peer in peers), *(",".join(map(str, peer["ports"]["x"])) for peer in peers)]
    )
    assert scene.log(W0) == f"{everybody}\n{peers[0]['host']}\n"
    assert scene.log(W1) == f"{everybody}\n{peers[1]['host']}\n"
    numbers = [number for peer in peers for number in peer["ports"]["x"]]
    assert len(set(numbers)) == 4


def test_peers_get_addresses_that_only_one_machine_has(scene: ClusterScene, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Member.met

    def met(member: Member, hello: Hello, address: str) -> bool:
        own = f"192.168.0.{member.task.task_index}"
        return real(member, hello._replace(boot_id=hello.node, addresses=["172.17.0.1", own]), address)

    monkeypatch.setattr(Member, "met", met)
    assert scene.job(plan("echo $PAI_HOST_IP_w_1", 2)).state == State.SUCCEEDED
    assert scene.log(W0) == scene.log(W1) == "192.168.0.1\n"
    assert [one["address"] for one in scene.seen("task-placed")][2:] == ["192.168.0.0", "192.168.0.1"]


def test_no_task_starts_before_all_have_come_together(scene: ClusterScene) -> None:
    """What has started before the barrier would have no peers."""
    scene.job(plan("true", 3))
    names = [event for event, _ in scene.events]
    assert names.count("task-placed") == 3
    assert scene.task_file(W0, "spec.json").exists()
    assert scene.task_file(W0, "spec.json").stat().st_mtime_ns >= scene.run.peers(0).stat().st_mtime_ns


def test_a_task_fails_and_the_others_are_stopped(scene: ClusterScene) -> None:
    command = "if [ $PAI_TASK_INDEX = 1 ]; then echo ValueError: no >&2; exit 3; fi; exec sleep 100"
    outcome = scene.job(plan(command, 2))
    assert (outcome.state, outcome.code) == (State.FAILED, 255)
    ends = {facts["index"]: facts["code"] for facts in scene.seen("task-completed")}
    assert ends == {0: STOPPED_BY_COMPLETION, 1: 255}
    assert scene.report(W1)["user_exit_code"] == 3
    assert scene.report(W0)["stopped_by"] == "TERM"


def test_a_task_is_tried_again_alone_in_its_place(scene: ClusterScene) -> None:
    command = "echo try $FC_TASK_ATTEMPT_ID at $PAI_PORT_LIST_w_0_x; [ $FC_TASK_ATTEMPT_ID = 1 ]"
    made = plan(command, gang=False, taskRetryCount=1, resources={"ports": {"x": 1}})
    outcome = scene.job(made)
    assert outcome.state == State.SUCCEEDED
    port = json.loads(scene.run.peers(0).read_text())["roles"]["w"][0]["ports"]["x"][0]
    assert scene.log(W0) == f"try 0 at {port}\n"
    assert scene.log(W0, task_attempt=1) == f"try 1 at {port}\n"
    assert len(scene.seen("task-placed")) == 1


def test_the_job_is_tried_again_with_new_agents(scene: ClusterScene) -> None:
    outcome = scene.job(plan("[ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]", 2, job_retries=1))
    assert (outcome.state, outcome.attempt) == (State.SUCCEEDED, 1)
    assert len(scene.seen("task-placed")) == 4


def test_forty_tasks(scene: ClusterScene) -> None:
    outcome = scene.job(plan("echo $PAI_TASK_INDEX", 40))
    assert outcome.state == State.SUCCEEDED
    assert len(scene.seen("task-completed")) == 40
    assert not scene.cluster.killed


def test_a_stop_lets_the_command_end_by_itself(scene: ClusterScene) -> None:
    def stop() -> None:
        scene.wait_for_log(W0, "ready")
        stops.take("stop")

    with Stops() as stops:
        command = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
        outcome = scene.job(plan(command), stop, stops=stops)
    assert (outcome.state, outcome.text) == (State.STOPPED, "stopped by a stop request")
    assert "bye" in scene.log(W0)


def test_a_kill_ends_the_grace_period(scene: ClusterScene) -> None:
    def stop() -> None:
        scene.wait_for_log(W0, "ready")
        stops.take("kill")

    with Stops() as stops:
        outcome = scene.job(plan("trap '' TERM; echo ready; while :; do sleep 0.1; done"), stop, stops=stops)
    assert outcome.state == State.STOPPED
    assert scene.report(W0)["killed"] is True


def test_a_task_that_is_stopped_before_its_start_never_runs(scene: ClusterScene) -> None:
    def stop() -> None:
        wait_until(lambda: len(scene.seen("task-placed")) == 2, 120)
        stops.take("stop", "ann")

    scene.absent = {W1}
    with Stops() as stops:
        outcome = scene.job(plan("echo never", 3), stop, stops=stops)
    assert (outcome.state, outcome.text) == (State.STOPPED, "stopped by a stop request of ann")
    assert not any(scene.task_file(task, "spec.json").exists() for task in (W0, W1, W2))


def test_the_barrier_names_who_is_missing_and_where(scene: ClusterScene) -> None:
    scene.absent = {W1}
    outcome = scene.job(plan("true", 3), settings=ClusterSettings(barrier_sec=2.0, barrier_note_sec=0.5))
    assert (outcome.state, outcome.code) == (State.FAILED, -310)
    ends = {facts["index"]: facts for facts in scene.seen("task-completed")}
    assert ends[1]["message"] == "the tasks could not start: after 2 s, 1 of 3 tasks is not ready: w:1 has not reported"
    assert ends[0]["code"] == ends[2]["code"] == STOPPED_BY_COMPLETION
    notes = [each["text"] for each in scene.seen("note")]
    assert re.fullmatch(r"after 0\.5 s, \d of 3 tasks (is|are) not ready yet: .*w:[01] has not reported.*", notes[0])
    assert len(notes) == len({note.partition(", ")[2] for note in notes}), "each says something new"


def test_the_barrier_fails_if_peers_could_not_reach_a_task(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "unreachable_peers", lambda members: [one for one in members if one.task == W1])
    outcome = scene.job(plan("true", 3))
    assert (outcome.state, outcome.code) == (State.FAILED, -310)
    ends = {facts["index"]: facts for facts in scene.seen("task-completed")}
    assert "it has no address that other nodes can reach" in ends[1]["message"]
    assert "1 of 3 tasks is not ready: w:1 on node " in ends[1]["message"]
    assert ends[0]["code"] == ends[2]["code"] == STOPPED_BY_COMPLETION


@pytest.mark.parametrize("made", ["running", "paused"])
def test_a_users_command_stops_the_job_over_the_link(scene: ClusterScene, made: str) -> None:
    def stop() -> None:
        event = "task-launched" if made == "running" else "job-retrying"
        wait_until(lambda: scene.seen(event), 120)
        owner_client.ask(scene.keys, ["127.0.0.1"], scene.server.port, "stop", "me")

    job = plan("exec sleep 100") if made == "running" else plan("kill -KILL $$")
    outcome = scene.job(replace(job, retry=replace(job.retry, backoff_sec=60.0)), stop)
    assert (outcome.state, outcome.text) == (State.STOPPED, "stopped by a stop request")


def test_secrets_may_have_any_values(scene: ClusterScene) -> None:
    """As on one machine: whoever has written them is no stranger."""
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    scene.secrets = Secrets({"account": 10**30, "deep": deep}, {"account": str(10**30)})
    outcome = scene.job(plan("true"), lambda: wait_until(lambda: scene.seen("task-completed"), 120))
    assert outcome.state == State.SUCCEEDED


def test_a_task_that_needs_more_than_a_message_holds_fails_with_words(scene: ClusterScene) -> None:
    """The controller must not end of it, again and again."""
    scene.secrets = Secrets({}, {"dataset": "x" * (17 << 20)})
    outcome = scene.job(plan("true", 2))
    assert (outcome.state, outcome.code) == (State.FAILED, 1)
    (first, *_) = scene.seen("task-completed")
    assert first["message"].endswith(": the values of secrets take 17.0 MiB; the limit is 16 MiB")
    assert outcome.judged.diagnosis
    assert "Put large values into files" in outcome.judged.diagnosis.remedy[0]
