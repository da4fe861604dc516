"""Whole jobs with their driver: its pods are agents as processes, its API server is a small one."""

from __future__ import annotations

import signal
from pathlib import Path

from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.wait import wait_until

from ...cluster.scene import plan
from .driver_scene import NAME, DriverScene

WAITS = "echo ready; while [ ! -e $TEST_SHARED/go ]; do sleep 0.05; done; echo done"


def go(scene: DriverScene) -> None:
    (scene.shared / "go").touch()


def test_a_job_runs_to_its_end(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan("echo hello", 3)) as scene:
        folder = scene.new_pod()
        now = scene.finish(scene.start(folder))
        assert (now.state, [task.tries for task in now.tasks]) == (State.SUCCEEDED, [1, 1, 1])
        assert scene.annotation(labels.ENDED) == {"state": "succeeded", "exit_code": 0}
        assert (Run(folder).task("w", 1, 0) / "user-all" / "current").read_text() == "hello\n"
        assert sorted(scene.kubelet.started) == ["j-1-a0-w-0", "j-1-a0-w-1", "j-1-a0-w-2"]
        assert scene.kubelet.pods() == [], "they are given back"
        assert scene.fake.listed("Secret") == []
        assert scene.recorded()[0]["event"] == JobEvent.JOB_SUBMITTED
        lines = (folder / "events.jsonl").read_text().splitlines()
        assert lines == [line for line in scene.log_text().splitlines() if not line.startswith('{"kedge-')]


def test_an_option_of_a_newer_kedge_is_named(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan("true"), later="7") as scene:
        now = scene.finish(scene.start(scene.new_pod()))
        assert now.state == State.FAILED
        assert "the runtime image is of an older kedge" in (now.text or "")
        assert "does not know later: push the image" in (now.text or "")


def test_a_driver_whose_pod_is_being_deleted_when_it_starts_leaves(tmp_path: Path) -> None:
    """A SIGTERM that comes before Python takes it is ignored: the driver is the first process of its container."""
    with DriverScene.made(tmp_path, plan("true")) as scene:
        folder = scene.new_pod()
        name = f"{RunNames(NAME).driver}-1"
        scene.api.patch("Pod", name, {"metadata": {"finalizers": ["example.com/kept"]}})
        scene.api.delete("Pod", name)
        assert scene.leaves(scene.start(folder), "its pod is being ended; this driver leaves")
        assert scene.recorded() == []
        assert scene.finish(scene.start(scene.new_pod())).state == State.SUCCEEDED


def test_the_job_of_a_driver_that_is_started_again_in_its_pod_goes_on(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS, 2)) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        for index in range(2):
            scene.wait_for_log(folder, "w", index, "ready")
        scene.kill(first)
        second = scene.start(folder)
        wait_until(lambda: scene.count(JobEvent.CONTROLLER_RESTARTED) == 1, 60)
        go(scene)
        assert scene.finish(second).state == State.SUCCEEDED
        assert (Run(folder).task("w", 0, 0) / "user-all" / "current").read_text() == "ready\ndone\n"
        assert len(scene.kubelet.started) == 2


def test_the_job_of_a_driver_whose_node_is_lost_goes_on_elsewhere(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS, 2)) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        for index in range(2):
            scene.wait_for_log(folder, "w", index, "ready")
        first.send_signal(signal.SIGSTOP)  # its node does not answer; it knows nothing of that
        elsewhere = scene.new_pod()
        second = scene.start(elsewhere)
        wait_until(lambda: scene.count(JobEvent.CONTROLLER_RESTARTED) == 1, 60)
        first.send_signal(signal.SIGCONT)
        assert scene.leaves(first, "this driver leaves")
        go(scene)
        assert scene.finish(second).state == State.SUCCEEDED
        log = Run(elsewhere).task("w", 0, 0) / "user-all" / "current"
        assert log.read_text() == "ready\ndone\n", "what agents have is sent again"
        assert len(scene.kubelet.started) == 2
        assert scene.count(JobEvent.ATTEMPT_STARTED) == 1


def test_a_driver_whose_pod_is_ended_stops_nothing_and_the_next_one_does_not_wait(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS)) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        scene.wait_for_log(folder, "w", 0, "ready")
        first.send_signal(signal.SIGTERM)
        assert scene.leaves(first, "its pod is being ended")
        lease = scene.fake.find("Lease", NAME)
        assert lease
        assert lease["spec"]["holderIdentity"] == ""
        second = scene.start(scene.new_pod())
        wait_until(lambda: scene.count(JobEvent.CONTROLLER_RESTARTED) == 1, 60)
        go(scene)
        assert scene.finish(second).state == State.SUCCEEDED
        assert scene.count(JobEvent.STOP_REQUESTED) == 0


def test_requests_of_the_owner_are_taken_up_once_by_whichever_driver(tmp_path: Path) -> None:
    command = "trap 'echo asked; sleep 1; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with DriverScene.made(tmp_path, plan(command)) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        scene.wait_for_log(folder, "w", 0, "ready")
        scene.ask("1", "stop", "somebody")
        scene.wait_for_log(folder, "w", 0, "asked")
        scene.kill(first)
        now = scene.finish(scene.start(folder))
        assert now.state == State.STOPPED
        (stopped,) = [each for each in scene.recorded() if each["event"] == JobEvent.STOP_REQUESTED]
        assert (stopped["by"], stopped["kill"]) == ("a stop request of somebody", False)


def test_a_run_that_is_removed_ends(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS)) as scene:
        folder = scene.new_pod()
        driver = scene.start(folder)
        scene.wait_for_log(folder, "w", 0, "ready")
        scene.api.delete("ConfigMap", NAME)
        assert driver.wait(60) == 1, scene.said()
        wait_until(lambda: not scene.kubelet.pods(), 60)
        assert scene.start(folder).wait(60) == 0, "there is nothing to do any more"


def test_the_driver_waits_until_its_folder_is_fetched(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan("true")) as scene:
        driver = scene.start(scene.new_pod())
        wait_until(lambda: scene.annotation(labels.ENDED) is not None, 60)
        assert driver.poll() is None
        scene.fetched()
        assert driver.wait(60) == 0


def test_a_failed_job_is_judged_by_reports_that_only_the_log_has_after_a_loss(tmp_path: Path) -> None:
    """The first task fails by itself, and the job goes on until the other one ends, under another driver."""
    command = f"""
if [ $PAI_TASK_INDEX = 0 ]; then echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'; exit 1; fi
{WAITS}
"""
    made = plan(command, 2, completion={"minFailedInstances": 2, "minSucceededInstances": 2})
    with DriverScene.made(tmp_path, made) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        wait_until(lambda: scene.count(JobEvent.TASK_COMPLETED) == 1, 60)
        scene.wait_for_log(folder, "w", 1, "ready")
        scene.kill(first)
        elsewhere = scene.new_pod()
        second = scene.start(elsewhere)
        wait_until(lambda: scene.count(JobEvent.CONTROLLER_RESTARTED) == 1, 60)
        assert (Run(elsewhere).task("w", 0, 0) / "report.json").exists()
        go(scene)
        now = scene.finish(second)
        assert [task.exit_code for task in now.tasks] == [1, 0]


def test_a_job_that_cannot_be_run_ends_once_and_for_all(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan(WAITS)) as scene:
        folder = scene.new_pod()
        first = scene.start(folder)
        scene.wait_for_log(folder, "w", 0, "ready")
        scene.kill(first)
        (folder / "cluster" / "link.json").write_text("{")
        second = scene.start(folder)
        wait_until(lambda: scene.annotation(labels.ENDED) is not None, 60)
        scene.kill(second)
        now = scene.finish(scene.start(scene.new_pod()))
        assert (now.state, scene.count(JobEvent.JOB_COMPLETED)) == (State.FAILED, 1)
        wait_until(lambda: not scene.kubelet.pods(), 60)
        assert "the keys of the link cannot be read" in str(scene.recorded()[-1])


def test_a_pod_whose_image_can_never_be_had_ends_its_task(tmp_path: Path) -> None:
    with DriverScene.made(tmp_path, plan("true")) as scene:
        name = "j-1-a0-w-0"
        scene.kubelet.absent.add(name)
        driver = scene.start(scene.new_pod())
        wait_until(lambda: scene.fake.find("Pod", name) is not None, 60)
        scene.fake.nodes.schedule(name)
        scene.fake.nodes.wait(
            name, "InvalidImageName", 'Failed to apply default image tag "X": invalid reference format'
        )
        assert scene.finish(driver).state == State.FAILED
        task = next(each for each in scene.recorded() if each["event"] == JobEvent.TASK_COMPLETED)
        assert task["code"] == 254
        assert "image" in task["message"]
