"""The backend in an allocation finds out why the allocation ends, or only a part of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.engines.cluster.scene import W0, W1, plan

from kedge import processes
from kedge.contract import STOPPED_BY_USER
from kedge.engines.cluster.backend import ClusterSettings
from kedge.engines.cluster.base import GoneKind
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.slurm.in_allocation import backend as slurm_backend
from kedge.errors import CannotRun
from kedge.states import State
from kedge.testing.wait import wait_until

from .slurm_scene import LeftAllocation, SlurmScene

WAITS = "echo ready; exec sleep 600"
CANCELLED = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-23T12:05:07 ***"
QUICK = ClusterSettings(report_sec=0.5)


@pytest.fixture
def scene(tmp_path: Path) -> SlurmScene:
    made = SlurmScene.made(tmp_path)
    made.install(tmp_path / "slurm")
    return made


def due_to(words: str) -> str:
    return f"{CANCELLED.removesuffix('***')}DUE TO {words} ***"


def test_a_job_succeeds(scene: SlurmScene) -> None:
    outcome = scene.in_allocation(plan("echo out of $SLURM_PROCID", 2))
    assert outcome.state is State.SUCCEEDED
    assert [scene.log(task) for task in (W0, W1)] == ["out of 0\n", "out of 1\n"]
    assert {facts["node"] for facts in scene.seen("task-placed")} == {"n1", "n2"}


def test_cancelled_from_outside_and_by_whom(scene: SlurmScene) -> None:
    scene.says("sacct", "CANCELLED by 0|0:0|n1|01:00:00\n")

    def cancel() -> None:
        scene.wait_for_log(W0, "ready")
        scene.allocation("COMPLETING")
        scene.step_says(CANCELLED)
        scene.end_step()

    outcome = scene.in_allocation(plan(WAITS), cancel, QUICK)
    assert (outcome.state, outcome.text) == (State.STOPPED, "stopped by root, with scancel")


def test_a_signal_of_the_batch_script_is_a_stop_request(scene: SlurmScene) -> None:
    """The job still runs, so nobody has cancelled it."""

    def stop() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(os.getpid(), signal.SIGTERM)

    outcome = scene.in_allocation(plan(WAITS), stop)
    assert (outcome.state, outcome.text) == (State.STOPPED, "stopped by a stop request")


def test_scancel_may_end_a_command_before_its_supervisor_knows(
    scene: SlurmScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It signals all processes of a step at once."""
    monkeypatch.setattr(slurm_backend, "_SIGNAL_SEC", 3600.0)

    def cancel() -> None:
        scene.wait_for_log(W0, "ready")
        scene.allocation("COMPLETING")
        scene.step_says(CANCELLED)

    outcome = scene.in_allocation(plan("echo ready; exit 143"), cancel)
    assert (outcome.state, scene.codes()) == (State.STOPPED, {W0: STOPPED_BY_USER})


def test_slurms_own_time_limit(scene: SlurmScene) -> None:
    scene.limit_sec = 3600.0

    def end() -> None:
        scene.wait_for_log(W0, "ready")
        scene.allocation("COMPLETING", "TimeLimit")
        scene.step_says(due_to("TIME LIMIT"))
        scene.end_step()

    outcome = scene.in_allocation(plan(WAITS), end, QUICK)
    assert (outcome.state, outcome.code) == (State.FAILED, -1004)
    assert "(extras.slurm.time)" in outcome.text
    assert "1 h" not in outcome.text  # Slurm's limit was shortened, so kedge's own has not passed


def test_the_notice_before_the_end_reaches_the_hooks(scene: SlurmScene) -> None:
    """The batch script passes on the signal that it has asked Slurm for."""

    def notice() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(os.getpid(), signal.SIGUSR2)

    command = "echo ready; until [ -e $KEDGE_JOB_DIR/saved ]; do sleep 0.05; done"
    assert scene.in_allocation(plan(command, before_stop="touch $KEDGE_JOB_DIR/saved"), notice).state is State.SUCCEEDED


def test_tasks_that_kedge_stops_wait_for_no_words_of_slurm(scene: SlurmScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_backend, "_SIGNAL_SEC", 3600.0)

    def look() -> None:
        wait_until(lambda: scene.codes().keys() >= {W0, W1}, 30, "the end of the other task")

    outcome = scene.in_allocation(plan("[ $SLURM_PROCID = 1 ] || exit 3; exec sleep 600", 2), look)
    assert outcome.state is State.FAILED
    assert outcome.text.startswith("w:0: ")


def test_preempted_for_good(scene: SlurmScene) -> None:
    def preempt() -> None:
        scene.wait_for_log(W0, "ready")
        scene.allocation("COMPLETING")
        scene.step_says(due_to("PREEMPTION"))
        scene.end_step()

    with pytest.raises(CannotRun, match="the job cannot be tried again: its allocation is over"):
        scene.in_allocation(plan(WAITS), preempt, QUICK)
    assert scene.codes() == {W0: -1003}


def test_slurm_ends_the_whole_job_after_the_loss_of_a_node(scene: SlurmScene) -> None:
    """As it does with a heterogeneous job if the node was the only one of a component. The task on another node leaves
    when Slurm asks it to, before anything else is known."""

    def lose() -> None:
        scene.wait_for_log(W0, "ready")
        scene.allocation("COMPLETING", "NodeDown")
        scene.step_says("srun: error: Node failure on n9", due_to("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"))
        os.kill([each.pid for each in processes.descendants(scene.agents()[0])][-1], signal.SIGTERM)

    with pytest.raises(CannotRun, match="the job cannot be tried again: its allocation is over"):
        scene.in_allocation(plan(WAITS), lose, QUICK)
    assert scene.codes() == {W0: -1001}
    (end,) = scene.seen("task-completed")
    assert "Slurm has ended the job because a node of it has failed (node n9): STEP 7.0" in end["message"]


def test_queued_again(scene: SlurmScene) -> None:
    def preempt() -> None:
        scene.wait_for_log(W0, "ready")
        scene.allocation("COMPLETING", restarts=1)
        scene.step_says(due_to("PREEMPTION"))

    with pytest.raises(LeftAllocation) as left:
        scene.in_allocation(plan(WAITS), preempt)
    end = left.value.args[0]
    assert (end.kind, end.requeued) == (GoneKind.PREEMPTED, True)
    assert not scene.seen("task-completed")  # the next controller records it


def test_a_step_with_too_much_memory_ends_alone(scene: SlurmScene) -> None:
    def kill() -> None:
        scene.wait_for_log(W1, "ready")
        scene.step_says(
            "slurmstepd-n1: error: StepId=7.0 exceeded memory limit (639823872 > 209715200), being killed",
            CANCELLED,
            "srun: error: n1: task 0: Killed",
        )
        scene.end_step()

    outcome = scene.in_allocation(plan(WAITS, 2), kill, QUICK)
    assert (outcome.state, outcome.code) == (State.FAILED, -1200)
    assert set(scene.codes().values()) == {-1200}
    assert (
        "its tasks on n1 together used 610 MiB, above the limit of 200 MiB"
        in scene.seen("task-completed")[0]["message"]
    )


def test_a_node_that_is_down_is_learned_from_slurm(scene: SlurmScene) -> None:
    """Its task is not heard of; nothing else says that it has gone."""

    def lose() -> None:
        scene.wait_for_log(W1, "ready")
        scene.says("nodes", "NodeName=n1 State=MIXED\nNodeName=n2 State=DOWN+NOT_RESPONDING\n")
        agent = scene.agents()[1]
        os.kill(agent, signal.SIGSTOP)
        stop_tree(agent)

    settings = ClusterSettings(report_sec=0.2, unreachable_sec=1.0, kill_sec=0.5, finish_sec=0.5)
    with pytest.raises(
        CannotRun, match="its allocation has lost n2, and too few nodes are left; with --slurm requeue=true"
    ):
        scene.in_allocation(plan(WAITS, 2), lose, settings)
    assert scene.codes()[W1] == -1001
    assert 1 in [facts["index"] for facts in scene.seen("task-unreachable")]


def stop_tree(pid: int) -> None:
    """Stop all processes below this one."""
    for each in processes.descendants(pid):
        os.kill(each.pid, signal.SIGSTOP)


def test_at_its_time_limit_a_job_asks_for_another_allocation(scene: SlurmScene) -> None:
    scene.limit_sec, scene.may_requeue = 1.0, True
    with pytest.raises(LeftAllocation) as left:
        scene.in_allocation(plan(WAITS))
    assert left.value.args[0].requeued
    assert len(scene.seen("allocation-requested")) == 1


GOES_ON = "echo ready; until [ -e $KEDGE_JOB_DIR/go ]; do sleep 0.05; done"


def test_slurm_has_given_the_allocation_more_time(scene: SlurmScene) -> None:
    """It is asked when the time is over that it had told."""
    scene.limit_sec = 0.5
    scene.says("squeue", "1:00:00")

    def go() -> None:
        wait_until(lambda: scene.seen("note"), 120)
        scene.wait_for_log(W0, "ready")
        (scene.run.job_dir / "go").touch()

    assert scene.in_allocation(plan(GOES_ON), go).state is State.SUCCEEDED
    assert ["the end of the allocation has changed" in facts["text"] for facts in scene.seen("note")] == [True]


def test_slurm_has_shortened_the_time_of_the_allocation(scene: SlurmScene) -> None:
    """It warns then, and is asked."""
    scene.limit_sec = 3600.0

    def warn() -> None:
        scene.wait_for_log(W0, "ready")
        os.kill(os.getpid(), signal.SIGUSR2)

    outcome = scene.in_allocation(plan(WAITS), warn)
    assert (outcome.state, outcome.code) == (State.FAILED, -1004)
    assert "1 h" not in outcome.text


def test_a_silent_slurm_has_told_the_time_before(scene: SlurmScene) -> None:
    scene.limit_sec = 0.5
    (scene.slurm / "squeue").unlink()
    outcome = scene.in_allocation(plan(WAITS))
    assert (outcome.state, outcome.code) == (State.FAILED, -1004)


def test_slurm_gives_no_other_allocation(scene: SlurmScene) -> None:
    scene.limit_sec, scene.may_requeue = 1.0, True
    scene.requeue("Requested operation is presently disabled for job 7", 1)
    outcome = scene.in_allocation(plan(WAITS))
    assert (outcome.state, outcome.code) == (State.FAILED, -1004)
    assert "the cluster has refused another one" in outcome.text
    notes = " ".join(facts["text"] for facts in scene.seen("note"))
    assert "presently disabled for job 7" in notes
    assert "ask the site's administrator to allow that, or ask for more time with --slurm time=TIME" in notes


@pytest.mark.parametrize(
    ("may_requeue", "advice"),
    [
        (False, "with --slurm requeue=true, Slurm gives the job another allocation"),
        (True, "has refused to requeue the job"),
    ],
)
def test_no_attempt_begins_in_an_allocation_without_its_nodes(
    scene: SlurmScene, may_requeue: bool, advice: str
) -> None:
    scene.requeue("Requested operation is presently disabled for job 7", 1)
    scene.may_requeue = may_requeue
    with Stops() as scene.stops, scene.backend_of(plan(WAITS), QUICK, scene.stops) as backend:
        backend._steps.lost_nodes = {"n2"}
        backend.retrying()
        with pytest.raises(CannotRun, match="its allocation has lost n2") as said:
            backend.place(1)
    assert advice in str(said.value)
