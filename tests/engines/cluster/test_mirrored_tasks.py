"""Jobs whose tasks do not have the run folder: it becomes what it would be if they had."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kedge.engines.cluster.base import GoneKind
from kedge.engines.cluster.settings import ClusterSettings
from kedge.testing.wait import wait_until

from .scene import W0, W1, ClusterScene, plan
from .test_agent_losses import agent
from .test_takeover import controller, submitted

NOTE = "note"


@pytest.fixture
def mirrored() -> int:
    return 1 << 20


def notes(scene: ClusterScene) -> str:
    return "\n".join(facts["text"] for facts in scene.seen(NOTE))


def test_what_a_task_leaves_is_in_the_run_folder_when_it_has_ended(scene: ClusterScene) -> None:
    command = """
        echo from task $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX; echo an error >&2
        mkdir $KEDGE_OUTPUT_DIR/a; echo result >$KEDGE_OUTPUT_DIR/a/b; ln -s /etc/passwd $KEDGE_OUTPUT_DIR/link
        exit 3"""
    outcome = scene.job(plan(command, tasks=2))
    assert outcome.exit_code != 0
    for task in (W0, W1):
        assert sorted(scene.log(task).splitlines()) == ["an error", f"from task {task.task_index}"]
        assert scene.task_file(task, "user-stderr/current").read_text() == "an error\n"
        assert scene.report(task)["user_exit_code"] == 3
        assert scene.task_file(task, "output/a/b").read_text() == "result\n"
        assert not os.path.lexists(scene.task_file(task, "output/link"))
    assert notes(scene) == ""


def test_a_task_does_not_see_the_run_folder_here(scene: ClusterScene) -> None:
    """Otherwise the other tests could not fail."""
    if os.geteuid() != 0:
        pytest.skip("only root can hide a folder")
    scene.job(plan(f"ls -A {scene.run.path} | wc -l; pwd"))
    count, folder = scene.log(W0).split()
    assert count == "0"
    assert not folder.startswith(str(scene.run.path))


def test_each_attempt_of_a_task_has_a_folder_of_its_own(scene: ClusterScene) -> None:
    outcome = scene.job(plan("echo $PAI_TASK_INDEX try; exit 1", gang=False, taskRetryCount=1))
    assert outcome.exit_code != 0
    assert [scene.log(W0, task_attempt=n) for n in range(2)] == ["0 try\n"] * 2
    assert notes(scene) == ""


def test_outputs_beyond_the_limit_are_named(scene: ClusterScene) -> None:
    scene.job(plan("cd $KEDGE_OUTPUT_DIR; head -c 2000000 /dev/zero >large; echo x >small"))
    assert [path.name for path in scene.task_file(W0, "output").iterdir()] == ["small"]
    assert notes(scene) == "w:0: outputs that were not copied, too many or too large: 1 (2000000 bytes)"


def test_another_controller_goes_on_at_the_byte(scene: ClusterScene) -> None:
    """The first one is killed while the task prints; the task ends while there is none."""
    count = 30_000
    made = plan(f"seq {count}; while ! test -e $TEST_SHARED/go; do sleep 0.1; done; seq {count}")
    with scene.first_controller(made) as kill:
        scene.wait_for_log(W0, "\n20\n")
        kill()
    (scene.shared / "go").touch()
    with scene.recorded():
        outcome = scene.job(made)
    assert outcome.exit_code == 0
    assert scene.log(W0) == 2 * "".join(f"{number}\n" for number in range(1, count + 1))
    assert notes(scene) == ""


def test_another_agent_goes_on_at_the_byte(scene: ClusterScene) -> None:
    """The agent is killed while the task prints, and again while it sends the rest."""
    count = 200_000

    def kill() -> None:
        scene.wait_for_log(W0, "\n20\n")
        killed = 0
        for _ in range(3):
            killed = agent(scene, besides=killed)
            os.kill(killed, signal.SIGKILL)
        agent(scene, besides=killed)

    outcome = scene.job(plan(f"for n in 1 2 3; do seq {count}; sleep 0.5; done"), kill)
    assert outcome.exit_code == 0
    assert scene.log(W0) == 3 * "".join(f"{number}\n" for number in range(1, count + 1))
    assert notes(scene) == ""


def test_what_was_known_is_kept_when_all_of_a_task_is_lost(scene: ClusterScene) -> None:
    def lose() -> None:
        scene.wait_for_log(W0, "begun")
        scene.cluster.lose(W0, GoneKind.CANCELLED)

    settings = ClusterSettings(report_sec=0.5)
    outcome = scene.job(plan("echo begun; sleep 100"), lose, settings)
    assert outcome.exit_code != 0
    assert scene.log(W0) == "begun\n"
    missing = "the end of its logs and its outputs may be missing: nothing is known after byte 6 of user-all/current"
    assert notes(scene).startswith(f"w:0: {missing}")
    assert missing in scene.seen("task-completed")[0]["message"]


def test_a_controller_that_hangs_holds_up_no_task(scene: ClusterScene) -> None:
    """It is suspended while a task prints far more than fits into memory that the agent takes for it."""
    line, lines = "x" * 99, 250_000
    prints = f"head -c {99 * lines} /dev/zero | tr '\\0' x | fold -w 99"
    wait = "until [ -e $TEST_SHARED/{} ]; do sleep 0.05; done".format
    submitted(scene, plan(f"echo ready; {wait('stopped')}; {prints}; touch $TEST_SHARED/printed; {wait('go')}"))
    process = controller(scene)
    try:
        scene.wait_for_log(W0, "ready")
        process.send_signal(signal.SIGSTOP)
        (scene.shared / "stopped").touch()
        wait_until((scene.shared / "printed").exists, 60)
        scene.cluster = scene.known_cluster()
        status = Path(f"/proc/{agent(scene)}/status").read_text()
        scene.cluster.leave()
        assert int(status.partition("VmHWM:")[2].split()[0]) < 40 << 10
        (scene.shared / "go").touch()
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
    assert scene.task_file(W0, "user-stdout/current").read_text() == "\n".join(["ready", *[line] * lines])


def test_what_a_killed_task_has_left_is_sent_before_the_cluster_kills_its_agent(scene: ClusterScene) -> None:
    def kill() -> None:
        scene.wait_for_log(W0, "ready")
        scene.cluster.soon(lambda: scene.backend.kill(W0))

    scene.mirrored = 1 << 30
    size = 300_000_000  # which takes longer than `kill_sec`; a busy machine does nothing for a part of that
    prints = f"head -c {size} /dev/zero >$KEDGE_OUTPUT_DIR/large; echo ready; sleep 100"
    made = plan(f"[ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] || {{ {prints}; }}")  # it is tried again
    scene.job(made, kill, ClusterSettings(kill_sec=0.5))
    assert scene.seen("task-completed")[0]["message"] == "stopped by KILL: it did not end by itself"
    assert scene.task_file(W0, "output/large").stat().st_size == size
    assert notes(scene) == ""
    assert scene.cluster.killed == []
