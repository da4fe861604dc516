"""Failed tasks are held for their user while controllers are killed."""

from __future__ import annotations

from dataclasses import replace

from kedge.engines.controller.stop_requests import Stops
from kedge.plan.model import Plan
from kedge.runs import events
from kedge.states import State
from kedge.testing.wait import wait_until

from .scene import W0, W1, ClusterScene, plan

# The first task fails at once, the other one when the test makes the file.
FAILS = """
echo ready
[ $PAI_TASK_INDEX = 0 ] || until [ -e $KEDGE_JOB_DIR/go ]; do sleep 0.05; done
echo failing; exit 3
"""


def holding(tasks: int) -> Plan:
    return replace(plan(FAILS, tasks, gang=False), hold_sec=600.0)


def recorded(scene: ClusterScene, name: str) -> list[int]:
    """The tasks in the events of this name."""
    return [event["index"] for event in events.read(scene.run.events) if event["event"] == name]


def held(scene: ClusterScene, made: Plan, tasks: int) -> None:
    """Run a first controller until the first task is held, and kill it."""
    with scene.first_controller(made) as kill:
        for task in (W0, W1)[:tasks]:
            scene.wait_for_log(task, "ready")
        wait_until(lambda: recorded(scene, "task-held") == [0], 120)
        kill()


def test_a_hold_is_released_by_the_second_controller(scene: ClusterScene) -> None:
    made = holding(1)
    held(scene, made, 1)
    with Stops() as stops, scene.recorded():

        def release() -> None:
            wait_until(lambda: scene.seen("controller-restarted"), 120)
            assert not recorded(scene, "task-completed")
            stops.take("release")

        outcome = scene.job(made, release, stops=stops)
    assert outcome.state == State.FAILED
    assert (recorded(scene, "task-held"), recorded(scene, "task-released")) == ([0], [0])
    assert recorded(scene, "task-completed") == [0]


def test_a_second_task_is_not_held_after_a_takeover(scene: ClusterScene) -> None:
    """Nothing is decided while the first one is held: the end of the second one waits for that."""
    made = holding(2)
    held(scene, made, 2)
    with Stops() as stops, scene.recorded():

        def follow() -> None:
            wait_until(lambda: scene.seen("controller-restarted"), 120)
            (scene.run.job_dir / "go").touch()
            wait_until(scene.task_file(W1, "report.json").exists, 120)
            assert not recorded(scene, "task-completed")
            stops.take("release")

        outcome = scene.job(made, follow, stops=stops)
    assert outcome.state == State.FAILED
    assert recorded(scene, "task-held") == [0]
    assert sorted(recorded(scene, "task-completed")) == [0, 1]
    assert [scene.report(task)["user_exit_code"] for task in (W0, W1)] == [3, 3]


def test_the_end_of_a_second_task_is_not_lost_with_the_controller(scene: ClusterScene) -> None:
    """It has ended, and waits for the end of the hold, when its controller is killed."""
    made = holding(2)
    with scene.first_controller(made) as kill:
        wait_until(lambda: recorded(scene, "task-held") == [0], 120)
        (scene.run.job_dir / "go").touch()
        wait_until(scene.task_file(W1, "report.json").exists, 120)
        kill()
    with Stops() as stops, scene.recorded():

        def release() -> None:
            wait_until(lambda: scene.seen("controller-restarted"), 120)
            stops.take("release")

        outcome = scene.job(made, release, stops=stops)
    assert outcome.state == State.FAILED
    assert sorted(recorded(scene, "task-completed")) == [0, 1]
    assert [scene.report(task)["user_exit_code"] for task in (W0, W1)] == [3, 3]


def test_a_release_whose_controller_is_killed_is_made_again(scene: ClusterScene) -> None:
    """It is recorded before the task is told."""
    made = holding(1)
    held(scene, made, 1)
    with scene.recorded():
        scene.emit("task-released", role="w", index=0)
        outcome = scene.job(made)
    assert outcome.state == State.FAILED
    assert recorded(scene, "task-completed") == [0]
