"""How long the tasks of an attempt wait for each other, also when the controller is another one meanwhile."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.base import Task
from kedge.engines.cluster import barrier
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.gate import Gate
from kedge.engines.cluster.link_server import LinkServer
from kedge.engines.cluster.member import Member
from kedge.engines.cluster.peers_record import PeersRecord
from kedge.engines.cluster.settings import ClusterSettings
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

from .scene import W0, ClusterScene, plan
from .test_agent_messages import NoCluster

WORKER = Task("worker", 0)


def gate() -> Gate:
    members = {WORKER: Member(WORKER)}
    settings = ClusterSettings(barrier_sec=600)
    return Gate(members, settings, lambda task: "", lambda event, **facts: None, own_places=True)


def fails(shut: Gate, after_sec: float) -> bool:
    return bool(shut.failure([], time.monotonic() + after_sec))


def test_the_time_at_the_barrier_goes_on() -> None:
    shut = gate()
    shut.has_waited(500)
    assert not fails(shut, 90)
    assert fails(shut, 110)


def test_agents_have_time_to_come_to_a_controller_that_was_missing_for_long() -> None:
    shut = gate()
    shut.has_waited(7200)
    assert not fails(shut, 50)
    assert fails(shut, 70)


def test_a_note_names_one_of_those_that_wait_for_the_same() -> None:
    members = [Member(Task("worker", index)) for index in range(6)]
    members[4].problem = "its disk is full"

    def whereabouts(task: Task) -> str:
        return f"pod job-a0-worker-{task.task_index} on node node{task.task_index % 2}: its container is being made"

    assert barrier.missing(members, whereabouts) == (
        "6 of 6 tasks are not ready yet: worker:0 has not reported (pod job-a0-worker-0 on node node0: its container "
        "is being made), and 4 more like it; worker:4: its disk is full"
    )


def test_what_was_recorded_tells_for_how_long_they_have_waited(tmp_path: Path) -> None:
    made: Any = None
    record = PeersRecord(made, Run(tmp_path), made, made, in_events=True)
    assert record.waited_sec(0) == 0
    began = (datetime.now(UTC) - timedelta(seconds=300)).isoformat()
    events = [{"time": began, "event": JobEvent.BARRIER_BEGUN, "attempt": attempt} for attempt in (0, 1)]
    Run(tmp_path).events.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    assert 300 <= record.waited_sec(1) < 400
    assert record.waited_sec(2) == 0


def test_the_time_in_which_the_job_was_suspended_does_not_count(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, suspended = time.monotonic, 0.0
    server = LinkServer(scene.keys, lambda *_: True, "controller")
    made = ClusterBackend(
        plan("true"), scene.run, Secrets({}, {}), scene.keys, server, NoCluster(), lambda *_, **facts: None,  # type: ignore[arg-type]
        lambda *_: None, ClusterSettings(barrier_sec=600, finish_sec=0.0),
    )  # fmt: skip
    monkeypatch.setattr(time, "monotonic", lambda: real() + suspended)
    made.place(0)
    made.start(W0, 0, 0, ())
    assert made.poll() == []
    suspended += 7200
    assert made.poll() == []
    ended: list[object] = []
    while not ended:
        suspended = made._look_at - real()
        ended = made.poll()
    assert 7200 + 500 < suspended < 7200 + 700
    made.close()
