"""Drivers, pods, nodes and the API server are lost while jobs run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.wait import wait_until

from ...cluster.scene import plan
from .driver_scene import DriverScene
from .test_driver import WAITS, go

# Each start is one line. The second task fails twice in the first attempt of the job, when all others have started.
COMMAND = """
echo $FC_FRAMEWORK_ATTEMPT_ID $PAI_TASK_INDEX $FC_TASK_ATTEMPT_ID >> $TEST_SHARED/starts
while [ $(grep -c "^$FC_FRAMEWORK_ATTEMPT_ID . 0" $TEST_SHARED/starts) -lt 3 ]; do sleep 0.05; done
sleep 0.3
[ $PAI_TASK_INDEX != 1 ] || [ $FC_FRAMEWORK_ATTEMPT_ID = 1 ]
"""
STARTS = ["0 0 0", "0 1 0", "0 1 1", "0 2 0", "1 0 0", "1 1 0", "1 2 0"]
DECISIONS = (JobEvent.ATTEMPT_STARTED, JobEvent.ATTEMPT_COMPLETED, JobEvent.JOB_RETRYING, JobEvent.JOB_COMPLETED)


def retried() -> Any:
    return plan(COMMAND, 3, gang=False, job_retries=1, taskRetryCount=1)


def decisions(scene: DriverScene) -> list[str]:
    return [each["event"] for each in scene.recorded() if each["event"] in DECISIONS]


def check(scene: DriverScene) -> None:
    """Nothing was decided twice, and no task was started twice."""
    assert sorted((scene.shared / "starts").read_text().splitlines()) == STARTS
    assert len(scene.kubelet.started) == len(set(scene.kubelet.started)) == 7
    assert scene.kubelet.at_once == [], "a task has one pod at a time"
    start, end = DECISIONS[:2]
    assert decisions(scene) == [start, end, JobEvent.JOB_RETRYING, start, end, JobEvent.JOB_COMPLETED]
    done = [(each["role"], each["index"]) for each in scene.recorded() if each["event"] == JobEvent.TASK_COMPLETED]
    assert len(done) == 6


def test_further_attempts_of_tasks_and_of_the_job_have_pods_of_their_own(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, retried()) as scene:
        now = scene.finish(scene.start(scene.new_pod()))
        assert (now.state, now.attempt) == (State.SUCCEEDED, 1)
        check(scene)
        assert "j-1-a0-w-1-t1" in scene.kubelet.started


def test_drivers_that_are_killed_change_nothing_for_the_tasks(tmp_path: Path) -> None:
    chance = random.Random(1)
    with DriverScene.made(tmp_path, retried()) as scene:
        folder = scene.new_pod()
        for _ in range(6):
            driver = scene.start(folder)
            scene.wait_for_more(driver, chance.randint(1, 6))
            scene.kill(driver)
        assert scene.finish(scene.start(folder)).state == State.SUCCEEDED
        check(scene)


def test_drivers_whose_nodes_are_lost_change_nothing_for_the_tasks(tmp_path: Path) -> None:
    chance = random.Random(2)
    with DriverScene.made(tmp_path, retried()) as scene:
        for _ in range(3):
            driver = scene.start(scene.new_pod())
            scene.wait_for_more(driver, chance.randint(3, 8))
            scene.kill(driver)
        assert scene.finish(scene.start(scene.new_pod())).state == State.SUCCEEDED
        check(scene)


def test_of_two_drivers_at_once_one_decides(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, retried()) as scene:
        both = [scene.start(scene.new_pod()) for _ in range(2)]
        scene.fetched()
        assert [driver.wait(90) for driver in both] == [0, 0], scene.said()
        assert "another driver controls the run" in scene.said()
        assert scene.count(JobEvent.CONTROLLER_RESTARTED) == 0
        check(scene)


def test_an_api_server_that_is_away_holds_up_decisions_and_no_task(tmp_path: Path) -> None:
    """For longer than the Lease is valid: the driver leaves, and its Job starts it again."""
    with DriverScene.made(tmp_path, plan(WAITS, 2)) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        for index in range(2):
            scene.wait_for_log(folder, "w", index, "ready")
        scene.fake.stop()
        assert first.wait(60) == 1
        second = scene.start(folder)
        go(scene)
        wait_until(lambda: "cannot be reached" in scene.said(), 60)
        scene.fake.start()
        assert scene.finish(second).state == State.SUCCEEDED
        assert (Run(folder).task("w", 0, 0) / "user-all" / "current").read_text() == "ready\ndone\n"
        assert len(scene.kubelet.started) == 2


def test_a_short_silence_of_the_api_server_is_waited_for(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, retried()) as scene:
        driver = scene.start(scene.new_pod())
        for _ in range(4):
            scene.wait_for_more(driver, 2)
            scene.fake.rules.fail(503, 3, verb="update")
            scene.fake.end_watches()
        now = scene.finish(driver)
        assert (now.state, now.attempt) == (State.SUCCEEDED, 1)
        check(scene)


def test_a_pod_that_somebody_deletes_is_no_end_of_its_own(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS, job_retries=0)) as scene:
        folder = scene.new_pod()
        driver = scene.start(folder)
        scene.wait_for_log(folder, "w", 0, "ready")
        scene.api.delete("Pod", "j-1-a0-w-0", grace_sec=1)
        wait_until(lambda: scene.count(JobEvent.ATTEMPT_STARTED) == 2 or scene.count(JobEvent.JOB_COMPLETED) == 1, 60)
        go(scene)
        scene.finish(driver)
        (task,) = [each for each in scene.recorded() if each["event"] == JobEvent.TASK_COMPLETED][:1]
        assert not task["succeeded"]
        assert "somebody" in task["message"], task["message"]


def test_a_pod_that_is_deleted_while_there_is_no_driver_is_not_created_again(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS, 2)) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        for index in range(2):
            scene.wait_for_log(folder, "w", index, "ready")
        scene.kill(first)
        scene.api.delete("Pod", "j-1-a0-w-0", grace_sec=1)
        wait_until(lambda: scene.kubelet.pods() == ["j-1-a0-w-1"], 60)
        second = scene.start(folder)
        wait_until(lambda: scene.count(JobEvent.TASK_COMPLETED) >= 1, 60)
        go(scene)
        scene.finish(second)
        assert scene.kubelet.started.count("j-1-a0-w-0") == 1
        failed = next(each for each in scene.recorded() if each["event"] == JobEvent.TASK_COMPLETED)
        assert (failed["index"], failed["succeeded"]) == (0, False)


def test_a_lost_node_is_waited_for_and_then_its_pod_is_removed_by_force(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS), lost_node="1s", unreachable="1s") as scene:
        folder = scene.new_pod()
        driver = scene.start(folder)
        scene.wait_for_log(folder, "w", 0, "ready")
        scene.kubelet.frozen = True  # and so the pod stays when its node is given up
        scene.api.delete("Pod", "j-1-a0-w-0", grace_sec=1)
        wait_until(lambda: scene.count(JobEvent.TASK_COMPLETED) == 1, 60)
        task = next(each for each in scene.recorded() if each["event"] == JobEvent.TASK_COMPLETED)
        assert "the task's node was lost" in task["message"]
        notes = [each["text"] for each in scene.recorded() if each["event"] == JobEvent.NOTE]
        assert any("may still run" in note for note in notes)
        scene.ask("1", "kill")
        scene.finish(driver)


def test_what_the_cluster_refuses_for_good_fails_at_once(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan("true", 2)) as scene:
        scene.fake.rules.refuse("Pod", "the site forbids this", name="j-1-a0-w-1")
        now = scene.finish(scene.start(scene.new_pod()))
        assert now.state == State.FAILED
        assert "the site forbids this" in str(scene.recorded())


def test_a_full_quota_is_waited_for(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan("true", 2)) as scene:
        folder = scene.new_pod()
        scene.fake.rules.limit("Pod", 2)  # with the driver's
        driver = scene.start(folder)
        wait_until(lambda: len(scene.kubelet.started) == 1, 60)
        scene.fake.rules.limit("Pod", None)
        assert scene.finish(driver).state == State.SUCCEEDED
