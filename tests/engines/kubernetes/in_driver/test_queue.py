"""Jobs that wait in a queue: Kueue holds their pods, admits them together, and takes their places back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kedge.contract import TaskTimeLimit
from kedge.plan.model import Plan
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.kubernetes_api.kueue import FakeKueue
from kedge.testing.wait import wait_until

from ...cluster.scene import plan
from .driver_scene import DriverScene
from .test_driver import WAITS, go


class QueueScene(NamedTuple):
    run: DriverScene
    kueue: FakeKueue

    def notes(self) -> list[str]:
        return [each["text"] for each in self.run.recorded() if each["event"] == JobEvent.NOTE]

    def wait_for_note(self, text: str) -> None:
        wait_until(lambda: any(text in note for note in self.notes()), 60)


@contextmanager
def queued(folder: Path, job: Plan, room: int, version: str = "v1beta1", **options: Any) -> Iterator[QueueScene]:
    """A run in the queue `team`, which has room for so many pods."""
    with DriverScene.made(folder, job, queue="team", **options) as run:
        kueue = FakeKueue(run.fake, version)
        kueue.add_queue("team", room)
        yield QueueScene(run, kueue)


def test_a_gang_waits_for_all_its_places_and_says_why(tmp_path: Path) -> None:
    """For longer than its tasks may wait for each other, and for a node, and than the job may run."""
    limited = replace(plan("true", 3), time_limit=TaskTimeLimit("extras.kedge.timeLimit", 8.0))
    with queued(tmp_path, limited, 2, barrier="8s", pending="1s") as scene:
        driver = scene.run.start(scene.run.new_pod())
        scene.wait_for_note("waiting in queue team: couldn't assign flavors")
        end = time.monotonic() + 9
        wait_until(lambda: time.monotonic() > end, 60)
        assert scene.kueue.used("team") == 0
        assert scene.run.kubelet.started == [], "two of three pods are of no use"
        assert scene.run.count(JobEvent.TASK_COMPLETED) == scene.run.count(JobEvent.TIME_LIMIT_REACHED) == 0
        scene.kueue.set_quota("team", 3)
        assert scene.run.finish(driver).state == State.SUCCEEDED
        assert len([note for note in scene.notes() if "waiting in queue" in note]) == 1
        assert any("the queue team has admitted the job after" in note for note in scene.notes())
        assert scene.run.kubelet.pods() == []
        assert scene.kueue.workloads() == []
        stood = [each["waited_sec"] for each in scene.run.recorded() if each["event"] == JobEvent.TIME_STOOD_STILL]
        assert sum(stood) > 8


def test_the_newer_api_of_kueue_is_spoken_as_well(tmp_path: Path) -> None:
    with queued(tmp_path, plan("true", 2), 1, "v1beta2") as scene:
        driver = scene.run.start(scene.run.new_pod())
        scene.wait_for_note("waiting in queue team: couldn't assign flavors")
        scene.kueue.set_quota("team", 2)
        assert scene.run.finish(driver).state == State.SUCCEEDED


def test_a_preempted_gang_is_tried_again_in_a_group_of_its_own(tmp_path: Path) -> None:
    with queued(tmp_path, plan(WAITS, 2), 2) as scene:
        folder = scene.run.new_pod()
        driver = scene.run.start(folder)
        for index in range(2):
            scene.run.wait_for_log(folder, "w", index, "ready")
        scene.kueue.set_quota("team", 0)  # somebody else has it now
        scene.kueue.evict("j-1-a0", "Preempted to accommodate a workload (UID: 1) due to prioritization")
        scene.wait_for_note("waiting in queue team")
        (ended,) = [each for each in scene.run.recorded() if each["event"] == JobEvent.ATTEMPT_COMPLETED]
        assert ended["code"] == -1003
        assert scene.kueue.used("team") == 0
        assert {each["metadata"]["name"] for each in scene.kueue.workloads()} == {"j-1-a1"}
        go(scene.run)
        scene.kueue.set_quota("team", 2)
        now = scene.run.finish(driver)
        assert (now.state, now.attempt) == (State.SUCCEEDED, 1)
        said = [each["message"] for each in scene.run.recorded() if each["event"] == JobEvent.TASK_COMPLETED]
        assert "the cluster preempted the task" in said[0]
        assert "Preempted to accommodate a workload" in said[0]


def test_tasks_that_are_no_gang_wait_each_by_themselves(tmp_path: Path) -> None:
    with queued(tmp_path, plan("true", 2, gang=False), 1) as scene:
        driver = scene.run.start(scene.run.new_pod())
        scene.wait_for_note("waiting in queue team: couldn't assign flavors")
        assert scene.kueue.used("team") == 1
        scene.kueue.set_quota("team", 2)
        assert scene.run.finish(driver).state == State.SUCCEEDED


def test_a_task_that_is_tried_again_alone_waits_alone(tmp_path: Path) -> None:
    """Its place is free while it waits, and nothing is in a hurry."""
    command = (
        """
if [ $PAI_TASK_INDEX = 1 ] && [ $FC_TASK_ATTEMPT_ID = 0 ]; then
    echo ready; while [ ! -e $TEST_SHARED/fail ]; do sleep 0.05; done; exit 1
fi
"""
        + WAITS
    )
    job = plan(command, 2, gang=False, taskRetryCount=1)
    with queued(tmp_path, job, 2, pending="1s") as scene:
        folder = scene.run.new_pod()
        driver = scene.run.start(folder)
        for index in range(2):
            scene.run.wait_for_log(folder, "w", index, "ready")
        scene.kueue.set_quota("team", 1)
        (scene.run.shared / "fail").touch()
        scene.wait_for_note("waiting in queue team")
        assert scene.kueue.used("team") == 1
        scene.kueue.set_quota("team", 2)
        go(scene.run)
        assert scene.run.finish(driver).state == State.SUCCEEDED
        assert "j-1-a0-w-1-t1" in scene.run.kubelet.started


def test_a_job_that_is_stopped_in_its_queue_leaves_nothing_there(tmp_path: Path) -> None:
    with queued(tmp_path, plan("true", 3), 2) as scene:
        driver = scene.run.start(scene.run.new_pod())
        scene.wait_for_note("waiting in queue team")
        scene.run.ask("1", "stop")
        assert scene.run.finish(driver).state == State.STOPPED
        assert scene.kueue.workloads() == []
        assert scene.run.kubelet.pods() == []


def test_a_driver_without_rights_in_kueue_still_waits_in_the_queue(tmp_path: Path) -> None:
    """Kueue takes back what a job had when its pods have ended."""
    with queued(tmp_path, plan("false", 2), 2) as scene:
        for verb in ("get", "list", "delete"):
            scene.run.fake.rules.deny(verb, "workloads")
        assert scene.run.finish(scene.run.start(scene.run.new_pod())).state == State.FAILED
        wait_until(lambda: scene.kueue.used("team") == 0, 60)
        assert scene.run.kubelet.pods() == []


def test_a_queue_without_effect_is_told(tmp_path: Path) -> None:
    with queued(tmp_path, plan("true", 2), 1) as scene:
        scene.kueue.manages = False
        assert scene.run.finish(scene.run.start(scene.run.new_pod())).state == State.SUCCEEDED
        assert any("the queue team has no effect" in note for note in scene.notes())


def test_a_pod_that_only_its_finalizer_keeps_holds_up_nothing(tmp_path: Path) -> None:
    """Its node is lost, so that Kueue waits for an end that nobody confirms."""
    with queued(tmp_path, plan(WAITS), 1, lost_node="1s", unreachable="1s") as scene:
        for verb in ("get", "list", "delete"):
            scene.run.fake.rules.deny(verb, "workloads")
        folder = scene.run.new_pod()
        driver = scene.run.start(folder)
        scene.run.wait_for_log(folder, "w", 0, "ready")
        scene.run.kubelet.frozen = True
        scene.run.api.delete("Pod", "j-1-a0-w-0", grace_sec=1)
        wait_until(lambda: scene.run.count(JobEvent.TASK_COMPLETED) == 1, 60)
        task = next(each for each in scene.run.recorded() if each["event"] == JobEvent.TASK_COMPLETED)
        assert "the task's node was lost" in task["message"]
        assert scene.run.fake.find("Pod", "j-1-a0-w-0") is not None
        scene.run.ask("1", "kill")
        scene.run.finish(driver)
