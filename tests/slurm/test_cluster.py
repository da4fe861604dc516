"""The cluster of these tests does what a Slurm cluster does, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster, is_alive
from .configuration import GPUS


def test_a_batch_job_runs_on_both_nodes_with_gpus(slurm: SlurmCluster, tmp_path: Path) -> None:
    script = f"srun sh -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES > {tmp_path}/$SLURM_PROCID'"
    job = slurm.submit(script, "--nodes=2", "--ntasks=2", f"--gres=gpu:{GPUS}")
    slurm.wait_for_state(job, "COMPLETED")
    assert [(tmp_path / str(n)).read_text().split() for n in range(2)] == [["n1", "0,1,2,3"], ["n2", "0,1,2,3"]]


def test_a_node_is_down_once_its_slurmd_is_gone_and_comes_back(slurm: SlurmCluster) -> None:
    slurm.kill_slurmd("n2")
    wait_until(lambda: slurm.node_state("n2").startswith("down"), DEADLINE, "n2 down")
    assert slurm.node_state("n1") == "idle"
    slurm.heal()
    slurm.run("srun", "--nodes=2", "true")


def test_a_lost_node_takes_its_processes_along(slurm: SlurmCluster, tmp_path: Path) -> None:
    jobs = [slurm.submit(f"echo $$ > {tmp_path}/{node}; exec sleep 600", f"--nodelist={node}") for node in ("n1", "n2")]
    pids = [wait_until(lambda n=n: _number(tmp_path / n), DEADLINE, n) for n in ("n1", "n2")]  # type: ignore[misc]
    slurm.lose_node("n2")
    assert [is_alive(pid) for pid in pids] == [True, False]
    slurm.run("scancel", *jobs)


def test_jobs_survive_slurmctld(slurm: SlurmCluster, tmp_path: Path) -> None:
    job = slurm.submit(f"until [ -e {tmp_path}/go ]; do sleep 0.1; done")
    slurm.wait_for_state(job, "RUNNING")
    slurm.stop_slurmctld()
    assert " DOWN" in slurm.ping()
    slurm.start_slurmctld()
    (tmp_path / "go").touch()
    slurm.wait_for_state(job, "COMPLETED")


def test_other_users_submit(slurm: SlurmCluster) -> None:
    assert slurm.run("srun", "id", "-un", user="nobody") == "nobody\n"


def test_a_job_in_spare_is_requeued_for_an_urgent_one(slurm: SlurmCluster) -> None:
    job = slurm.submit("sleep 600", "--partition=spare", "--exclusive", "--nodes=2")
    slurm.wait_for_state(job, "RUNNING")
    slurm.run("srun", "--partition=urgent", "--exclusive", "true")
    assert "Restarts=1" in slurm.run("scontrol", "show", "job", job)


def test_nodes_have_a_folder_that_they_do_not_share(slurm: SlurmCluster) -> None:
    slurm.run("srun", "--nodelist=n1", "touch", str(slurm.own / "seen"))
    assert slurm.run("srun", "--nodes=2", "--label", "ls", str(slurm.own)) == "0: seen\n"


BODY = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tests.slurm.cluster import SlurmCluster
slurm = SlurmCluster()
slurm.start()
job = slurm.submit("setsid sleep 600 & echo $! > " + sys.argv[2] + "; sleep 600")
print(json.dumps({"folder": str(slurm.folder), "pids": list(slurm.pids.values())}), flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_pytest_is_killed(slurm: SlurmCluster, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", BODY, str(Path(__file__).parents[2]), str(tmp_path / "pid")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        other = json.loads(process.stdout.readline())
        pids = [*other["pids"], wait_until(lambda: _number(tmp_path / "pid"), DEADLINE, "the job")]
        assert [is_alive(pid) for pid in pids] == [True] * 5
        os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not Path(other["folder"]).exists(), DEADLINE, "the removal of the cluster's folder")
    assert [is_alive(pid) for pid in pids] == [False] * 5
    slurm.run("srun", "true")


def _number(file: Path) -> int:
    return int(file.read_text() or 0) if file.exists() else 0
