"""Jobs on a cluster that keeps accounts: who may use what, who has cancelled a job, and what it used."""

from __future__ import annotations

import pytest

from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster
from .kedge_on_slurm import OnSlurm
from .test_ends import ONCE, background, facts
from .test_jobs import WAITS

# More than the 200 MiB of each of two tasks, and only from the second of them.
EATS = """\
echo ready; [ $PAI_TASK_INDEX = 0 ] || python3 -c 'x = bytes([1]) * (600 << 20); print(len(x)); input()' < /dev/zero
sleep 600
"""


def forgotten(slurm: SlurmCluster, job: str) -> None:
    """Wait until slurmctld does not know a job any more."""
    wait_until(lambda: not slurm.state(job), DEADLINE, "slurmctld forgets the job")


def accounted_for(slurm: SlurmCluster, job: str) -> None:
    """Wait until the accounts know that a job runs: slurmctld tells them of starts every five seconds."""
    known = ("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}", "--format=State")
    wait_until(lambda: slurm.run(*known).strip() == "RUNNING", DEADLINE, "the accounts know the job")


def test_who_has_cancelled_a_job(kedge_with_accounts: OnSlurm, with_accounts: SlurmCluster) -> None:
    kedge = kedge_with_accounts
    run = background(kedge)
    accounted_for(with_accounts, kedge.number(run))
    with_accounts.run("scancel", kedge.number(run))
    assert "stopped by root, with scancel" in kedge("wait", run, code=1).stdout
    forgotten(with_accounts, kedge.number(run))
    assert "Stopped in" in kedge("show", run).stdout
    assert "stopped" in kedge("ps", "--all").stdout


def test_a_job_that_slurmctld_has_forgotten_is_explained(
    kedge_with_accounts: OnSlurm, with_accounts: SlurmCluster
) -> None:
    """It is cancelled before it starts, so that no controller of kedge is there to record that."""
    kedge = kedge_with_accounts
    with_accounts.submit("sleep 600", "--exclusive", "--nodes=2")
    run = kedge("run", "-d", kedge.job(WAITS)).stdout.strip()
    number = kedge.number(run)
    with_accounts.wait_for_state(number, "PENDING")
    with_accounts.run("scancel", number)
    forgotten(with_accounts, number)
    said = f"cancelled outside of kedge by root (Slurm job {number}"
    assert "stopped" in kedge("ps", "--all").stdout
    assert said in kedge("show", run).stdout
    assert said in kedge("wait", run, code=1).stdout
    assert not (kedge.jobs / run / "cluster" / "secrets.json").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("account=vision", "root may not use the account 'vision'; there is only root"),
        ("qos=high", "root may not use the qos 'high'; there is only normal"),
    ],
)
def test_what_the_user_may_not_use_is_refused_before_submission(
    kedge_with_accounts: OnSlurm, with_accounts: SlurmCluster, option: str, message: str
) -> None:
    with_accounts.run("sacctmgr", "--immediate", "add", "account", "vision", check=False)
    with_accounts.run("sacctmgr", "--immediate", "add", "qos", "high", check=False)
    kedge = kedge_with_accounts
    done = kedge("run", "--slurm", option, kedge.job("true"), code=4)
    assert message in done.stderr, done
    assert kedge.runs() == []
    refused = with_accounts.run("sbatch", f"--{option}", "--wrap=true", check=False)
    assert refused == ""  # Slurm thinks so, too


def test_what_the_user_may_use_is_accepted(kedge_with_accounts: OnSlurm) -> None:
    kedge = kedge_with_accounts
    done = kedge("run", "--slurm", "account=root", "--slurm", "qos=normal", kedge.job("echo hello"))
    assert "Succeeded" in done.stdout


def test_a_qos_may_lift_the_time_limit_of_a_partition(
    kedge_with_accounts: OnSlurm, with_accounts: SlurmCluster
) -> None:
    """As on clusters with a QOS for long jobs. Others do not, and are refused."""
    for name, flags in (("long", "PartitionTimeLimit"), ("other", "DenyOnLimit")):
        with_accounts.run("sacctmgr", "--immediate", "add", "qos", name, f"flags={flags}")
    with_accounts.run("sacctmgr", "--immediate", "modify", "user", "root", "set", "qos+=long,other")
    kedge, job = kedge_with_accounts, kedge_with_accounts.job("echo hello")
    said = kedge("run", "--slurm", "qos=other", "--slurm", "time=2h", job, code=4).stderr
    assert "limit of the partition main is 1 h, and the job asks for 2 h" in said
    assert "Succeeded" in kedge("run", "--slurm", "qos=long", "--slurm", "time=2h", job).stdout


def test_a_role_that_needs_too_much_memory(kedge_with_accounts: OnSlurm) -> None:
    kedge = kedge_with_accounts
    roles = {"worker": {"instances": 2, "resourcePerInstance": {"cpu": 1, "memoryMB": 200, "gpu": 0}}}
    said = kedge("run", kedge.job(EATS, roles=roles, extras=ONCE), code=1).stdout
    assert "host_oom_kill (permanent, sure)" in said
    assert "MiB, above the limit of 400 MiB; Slurm then ends the whole role" in said
    assert "Ask for more host memory" in said
    assert [event["code"] for event in facts(kedge, "task-completed")] == [-1200, -1200]
