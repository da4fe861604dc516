"""Jobs that run on a cluster as it should be: many tasks, several jobs, users who leave and come back."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.conftest import EXAMPLES
from tests.e2e.terminals import Terminal
from tests.e2e.test_lost import NOBODY

from .cluster import SlurmCluster
from .kedge_on_slurm import AsNobody, OnSlurm

WAITS = "echo ready on $SLURMD_NODENAME; until [ -e $KEDGE_JOB_DIR/go ]; do sleep 0.1; done; echo bye"


def test_forty_tasks_run_on_both_nodes(kedge: OnSlurm) -> None:
    roles = {"worker": {"instances": 40, "resourcePerInstance": {"cpu": 3, "memoryMB": 64, "gpu": 0}}}
    done = kedge("run", kedge.job("echo $SLURMD_NODENAME", roles=roles))
    assert "Succeeded" in done.stdout
    nodes = [kedge.task_log(f"worker-{index}") for index in range(40)]
    assert {node: nodes.count(node) for node in set(nodes)} == {"n1\n": 21, "n2\n": 19}
    assert kedge.leftovers() == []


def test_tasks_have_the_users_limit_of_open_files(kedge: OnSlurm) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    try:
        # With a setting of Python's, it is a new process, and not forked from one that was started with other limits.
        printed = kedge("run", kedge.job("echo $(ulimit -Sn) of $(ulimit -Hn)"), PYTHONUTF8="1").stdout
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert f"1000 of {hard}" in printed


def test_gpus_are_those_that_slurm_gives(kedge: OnSlurm) -> None:
    roles = {"worker": {"instances": 4, "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 2}}}
    kedge("run", kedge.job("echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES", roles=roles))
    seen = sorted(kedge.task_log(f"worker-{index}").split()[1] for index in range(4))
    assert len(seen) == 4
    assert all(len(devices.split(",")) == 2 for devices in seen), seen


def test_the_example(kedge: OnSlurm) -> None:
    done = kedge("run", EXAMPLES / "slurm.yaml")
    assert "chief:0  | pi is about 3.1416" in done.stdout
    assert "Succeeded" in done.stdout
    assert kedge.leftovers() == []


def test_the_demo(kedge: OnSlurm) -> None:
    done = kedge("run", EXAMPLES / "digits.yaml", "-p", "epochs=40")
    assert "Succeeded" in done.stdout
    assert "worker 0 of 3" in done.stdout


def test_two_jobs_at_once(kedge: OnSlurm) -> None:
    names = [kedge("run", "-d", kedge.job(WAITS, name=name)).stdout.strip() for name in ("first", "second")]
    for run in names:
        kedge.wait_for_line(run, "ready")
        assert "running" in kedge("ps").stdout
    for run in reversed(names):
        kedge.let_go(run)
        kedge("wait", run)
        assert "succeeded" in kedge("show", run).stdout
    assert kedge.leftovers() == []


def test_a_submitter_that_was_killed_comes_back(kedge: OnSlurm) -> None:
    process = kedge.start("run", kedge.job(WAITS))
    kedge.wait_for_output("ready")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    run = kedge.only_run().name
    back = kedge.start("attach", run)
    assert back.stderr
    assert "is running" in back.stderr.readline()
    kedge.let_go(run)
    printed = kedge.finish(back, 0)
    assert "worker:0 | bye" in printed
    assert "Succeeded" in printed


@pytest.mark.parametrize("command", ["run", "attach"])
def test_a_closed_terminal_of_the_login_node_leaves_the_job_alone(kedge: OnSlurm, command: str) -> None:
    job = kedge.job(WAITS, name="job")
    if command == "attach":
        kedge("run", "-d", job)
    viewer = Terminal(kedge, command, job if command == "run" else "job")
    viewer.shows("ready")
    viewer.close()
    assert viewer.code(closed=True) == 0
    run = kedge.only_run().name
    assert "running" in kedge("ps").stdout
    kedge.let_go(run)
    assert kedge("wait", run).stdout == "succeeded\n"


def test_a_user_without_privileges(slurm: SlurmCluster) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kedge-test-"))
    os.chown(folder, NOBODY, NOBODY)
    with closing(AsNobody(folder, slurm)) as nobody:
        done = nobody("run", nobody.job("id -u; echo $SLURM_JOB_ID"))
        assert "Succeeded" in done.stdout
        assert nobody.task_log().split()[0] == str(NOBODY)
        assert "Permission denied" not in done.stderr
    shutil.rmtree(folder)


def test_a_run_folder_that_nodes_do_not_share(kedge: OnSlurm, slurm_own: Path) -> None:
    kedge.environment["XDG_STATE_HOME"] = str(slurm_own)
    kedge.jobs = slurm_own / "kedge" / "jobs"
    done = kedge("run", kedge.job("echo never"), code=1)
    assert "share" in done.stderr + done.stdout, done
