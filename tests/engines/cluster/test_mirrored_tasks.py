"""Jobs whose tasks do not have the run folder: it becomes what it would be if they had."""

from __future__ import annotations

import os
import signal

import pytest

from kedge.engines.cluster.base import GoneKind
from kedge.engines.cluster.settings import ClusterSettings

from .scene import W0, W1, ClusterScene, plan
from .test_agent_losses import agent

NOTE = "note"


@pytest.fixture
def mirrored(scene: ClusterScene) -> ClusterScene:
    scene.mirrored = 1 << 20
    return scene


def notes(scene: ClusterScene) -> str:
    return "\n".join(facts["text"] for facts in scene.seen(NOTE))


def test_what_a_task_leaves_is_in_the_run_folder_when_it_has_ended(mirrored):
    command = """
        echo from task $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX; echo an error >&2
        mkdir $KEDGE_OUTPUT_DIR/a; echo result >$KEDGE_OUTPUT_DIR/a/b; ln -s /etc/passwd $KEDGE_OUTPUT_DIR/link
        exit 3"""
    outcome = mirrored.job(plan(command, tasks=2))
    assert outcome.exit_code != 0
    for task in (W0, W1):
        assert sorted(mirrored.log(task).splitlines()) == ["an error", f"from task {task.task_index}"]
        assert mirrored.task_file(task, "user-stderr/current").read_text() == "an error\n"
        assert mirrored.report(task)["user_exit_code"] == 3
        assert mirrored.task_file(task, "output/a/b").read_text() == "result\n"
        assert not os.path.lexists(mirrored.task_file(task, "output/link"))
    assert notes(mirrored) == ""


def test_a_task_does_not_see_the_run_folder_here(mirrored):
    """Otherwise the other tests could not fail."""
    if os.geteuid() != 0:
        pytest.skip("only root can hide a folder")
    mirrored.job(plan(f"ls -A {mirrored.run.path} | wc -l; pwd"))
    count, folder = mirrored.log(W0).split()
    assert count == "0"
    assert not folder.startswith(str(mirrored.run.path))


def test_each_attempt_of_a_task_has_a_folder_of_its_own(mirrored):
    outcome = mirrored.job(plan("echo $PAI_TASK_INDEX try; exit 1", gang=False, taskRetryCount=1))
    assert outcome.exit_code != 0
    assert [mirrored.log(W0, task_attempt=n) for n in range(2)] == ["0 try\n"] * 2
    assert notes(mirrored) == ""


def test_outputs_beyond_the_limit_are_named(mirrored):
    mirrored.job(plan("cd $KEDGE_OUTPUT_DIR; head -c 2000000 /dev/zero >large; echo x >small"))
    assert [path.name for path in mirrored.task_file(W0, "output").iterdir()] == ["small"]
    assert notes(mirrored) == "w:0: outputs that were not copied, too many or too large: 1 (2000000 bytes)"


def test_another_controller_goes_on_at_the_byte(mirrored):
    """The first one is killed while the task prints; the task ends while there is none."""
    count = 30_000
    made = plan(f"seq {count}; while ! test -e {mirrored.run.path.parent}/go; do sleep 0.1; done; seq {count}")
    with mirrored.first_controller(made) as kill:
        mirrored.wait_for_log(W0, "\n20\n")
        kill()
    (mirrored.run.path.parent / "go").touch()
    with mirrored.recorded():
        outcome = mirrored.job(made)
    assert outcome.exit_code == 0
    assert mirrored.log(W0) == 2 * "".join(f"{number}\n" for number in range(1, count + 1))
    assert notes(mirrored) == ""


def test_another_agent_goes_on_at_the_byte(mirrored):
    """The agent is killed while the task prints, and again while it sends the rest."""
    count = 200_000

    def kill() -> None:
        mirrored.wait_for_log(W0, "\n20\n")
        killed = 0
        for _ in range(3):
            killed = agent(mirrored, besides=killed)
            os.kill(killed, signal.SIGKILL)
        agent(mirrored, besides=killed)

    outcome = mirrored.job(plan(f"for n in 1 2 3; do seq {count}; sleep 0.5; done"), kill)
    assert outcome.exit_code == 0
    assert mirrored.log(W0) == 3 * "".join(f"{number}\n" for number in range(1, count + 1))
    assert notes(mirrored) == ""


def test_what_was_known_is_kept_when_all_of_a_task_is_lost(mirrored):
    def lose() -> None:
        mirrored.wait_for_log(W0, "begun")
        mirrored.cluster.lose(W0, GoneKind.CANCELLED)

    settings = ClusterSettings(report_sec=0.5)
    outcome = mirrored.job(plan("echo begun; sleep 100"), lose, settings)
    assert outcome.exit_code != 0
    assert mirrored.log(W0) == "begun\n"
    assert notes(mirrored) == ("w:0: the end of its logs and its outputs may be missing: the last of them has not come")
