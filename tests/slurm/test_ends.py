"""What may happen to a job on a cluster, and what its user is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kedge import processes
from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster
from .kedge_on_slurm import OnSlurm
from .test_jobs import WAITS

PAIR = {"worker": {"instances": 2, "resourcePerInstance": {"cpu": 40, "memoryMB": 64, "gpu": 0}}}  # one on each node
ONCE = {"kedge": {"retry": {"maxTransient": 0}}}
SAVES = "kill -0 $KEDGE_COMMAND_PID && touch $KEDGE_JOB_DIR/saved"  # while the command still runs
SAVE = {
    "name": "save", "type": "script", "plugin": "cmd", "callbacks": [{"event": "beforeStop", "commands": [SAVES]}],
}  # fmt: skip


def background(kedge: OnSlurm, *options: str, **keys: Any) -> str:
    """Start a job that waits, and return its run once all its tasks are ready."""
    run = kedge("run", "-d", *options, kedge.job(WAITS, **keys)).stdout.strip()
    for index in range(2 if "roles" in keys else 1):
        kedge.wait_for_output("ready", f"worker-{index}")
    return str(run)


def site(kedge: OnSlurm, line: str) -> None:
    """Have the site set an option of the engine."""
    path = kedge.folder / "site.toml"
    path.write_text(f"[engines.slurm]\n{line}\n")
    kedge.environment["KEDGE_SITE_FILE"] = str(path)


def facts(kedge: OnSlurm, name: str) -> list[dict[str, Any]]:
    """The events with this name."""
    return [event for event in kedge.events() if event["event"] == name]


def test_the_loss_of_a_node_is_named(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge, roles=PAIR, extras=ONCE)
    slurm.lose_node("n2")
    assert "worker:1: node_failure" in kedge("wait", run, code=1).stdout
    lost = next(event for event in facts(kedge, "task-completed") if event["index"] == 1)
    assert lost["code"] == -1001
    assert "node n2" in lost["message"]
    slurm.heal()
    assert kedge.leftovers(lost="worker-1") == []


def test_a_node_that_only_slurm_does_not_hear_of(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    """Its slurmd hangs, while the task still speaks to the controller: the cluster's word counts."""
    run = background(kedge, roles=PAIR, extras=ONCE)
    slurmd = slurm.pids["n2"]
    os.kill(slurmd, signal.SIGSTOP)
    try:
        assert "worker:1: node_failure" in kedge("wait", run, code=1).stdout
    finally:
        os.kill(slurmd, signal.SIGCONT)
    lost = next(event for event in facts(kedge, "task-completed") if event["index"] == 1)
    assert lost["code"] == -1001
    assert "node n2" in lost["message"]
    slurm.heal()
    assert kedge.leftovers() == []


def test_without_requeue_a_lost_node_ends_the_job(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge, roles=PAIR)
    slurm.lose_node("n2")
    said = kedge("wait", run, code=1).stdout
    assert "node_failure; not retried: its allocation has lost n2" in said
    assert "--slurm requeue=true" in said
    assert [event["code"] for event in facts(kedge, "attempt-completed")] == [-1001]
    assert [event["attempt"] for event in facts(kedge, "attempt-started")] == [0]


def test_with_requeue_a_lost_node_leads_to_another_allocation(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge, "--slurm", "requeue=true", roles=PAIR)
    slurm.lose_node("n2")
    wait_until(lambda: bool(facts(kedge, "allocation-requested")), DEADLINE, "the wish for another allocation")
    wait_until(lambda: slurm.state(kedge.number(run)) == "PENDING", DEADLINE, "the job in the queue")
    slurm.start_slurmd("n2")
    for index in range(2):
        kedge.wait_for_output("ready", f"worker-{index}", attempt=1)
    kedge.let_go(run)
    kedge("wait", run)
    assert [event["code"] for event in facts(kedge, "attempt-completed")] == [-1001, 0]
    assert [event["attempt"] for event in facts(kedge, "attempt-started")] == [0, 1]
    assert kedge.leftovers(lost="worker-1") == []


def test_the_job_is_tried_again_on_the_nodes_that_are_left(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    # Something else of the job takes so much of the first node that only one of the tasks fits there, too.
    blocks = "srun --exact --nodes=1 --nodelist=$SLURMD_NODENAME --ntasks=1 --cpus-per-task=40 --mem=0"
    starts = f"{blocks} sh -c 'touch cluster/blocked; exec sleep 600' &"
    prologue = [starts, "until [ -e cluster/blocked ]; do sleep 0.1; done"]
    site(kedge, f'sbatch = ["--nodes=2"]\nprologue = {json.dumps(prologue)}')
    roles = {"worker": {"instances": 2, "resourcePerInstance": {"cpu": 20, "memoryMB": 64, "gpu": 0}}}
    run = background(kedge, "--slurm", "exclusive=true", roles=roles)
    assert sorted(kedge.task_log(f"worker-{index}") for index in range(2)) == ["ready on n1\n", "ready on n2\n"]
    lost = next(f"worker-{index}" for index in range(2) if "n2" in kedge.task_log(f"worker-{index}"))
    slurm.run("scancel", f"{kedge.number(run)}.0")
    slurm.lose_node("n2")
    for index in range(2):
        kedge.wait_for_output("ready on n1", f"worker-{index}", attempt=1)
    kedge.let_go(run)
    kedge("wait", run)
    assert [event["code"] for event in facts(kedge, "attempt-completed")] == [-1001, 0]
    assert kedge.leftovers(lost=lost) == []


def test_a_node_that_is_started_again_has_lost_its_task(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    site(kedge, 'unreachable = "3s"')
    run = background(kedge, roles=PAIR)
    slurm.restart_node("n2")
    said = kedge("wait", run, code=1).stdout
    assert "node_failure; not retried: its allocation has lost n2" in said
    lost = next(event for event in facts(kedge, "task-completed") if event["index"] == 1)
    assert lost["code"] == -1001
    assert "the node was rebooted" in lost["message"]
    assert kedge.leftovers(lost="worker-1") == []


@pytest.mark.parametrize("requeue", ["true", "false"])
def test_the_loss_of_the_first_node(kedge: OnSlurm, slurm: SlurmCluster, requeue: str) -> None:
    site(kedge, 'unreachable = "3s"')
    run = background(kedge, "--slurm", f"requeue={requeue}", roles=PAIR)
    slurm.lose_node("n1")
    if requeue == "true":
        wait_until(lambda: slurm.state(kedge.number(run)) == "PENDING", DEADLINE, "the job in the queue")
        slurm.start_slurmd("n1")
        kedge.wait_for_output("ready", "worker-1", attempt=1)
        kedge.let_go(run)
        kedge("wait", run)
        assert [event["code"] for event in facts(kedge, "attempt-completed")] == [-1001, 0]
    else:
        assert "the node n1, on which its controller ran, has failed" in kedge("wait", run, code=1).stdout
        assert kedge.events()[-1]["code"] == -1001
    wait_until(lambda: kedge.leftovers(lost="worker-0") == [], DEADLINE, "the end of the Slurm job")


def test_the_loss_of_the_only_node_of_a_job(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge, "--slurm", "requeue=true")
    slurm.lose_node("n1")
    kedge.wait_for_output("ready", attempt=1)
    kedge.let_go(run)
    kedge("wait", run)
    assert [event["code"] for event in facts(kedge, "attempt-completed")] == [-1001, 0]


def preempt(slurm: SlurmCluster) -> str:
    """Submit a job of a higher priority that needs both nodes, and return its number once it runs."""
    other = slurm.submit("sleep 600", "--partition=urgent", "--exclusive", "--nodes=2")
    slurm.wait_for_state(other, "RUNNING")
    return other


@pytest.mark.parametrize("partition", ["spare", "graced"])
def test_with_requeue_a_preempted_job_goes_on_in_another_allocation(
    kedge: OnSlurm, slurm: SlurmCluster, partition: str
) -> None:
    run = background(kedge, "--slurm", "requeue=true", "--slurm", f"partition={partition}", roles=PAIR)
    other = preempt(slurm)
    slurm.run("scancel", other)
    kedge.wait_for_output("ready", attempt=1)
    kedge.let_go(run)
    kedge("wait", run)
    assert [event["code"] for event in facts(kedge, "attempt-completed")] == [-1003, 0]
    assert [event["attempt"] for event in facts(kedge, "attempt-started")] == [0, 1]
    assert kedge.leftovers() == []


@pytest.mark.parametrize("partition", ["spare", "graced"])
def test_without_requeue_a_preempted_job_ends(kedge: OnSlurm, slurm: SlurmCluster, partition: str) -> None:
    run = background(kedge, "--slurm", f"partition={partition}", roles=PAIR)
    preempt(slurm)
    said = kedge("wait", run, code=1).stdout
    assert "preempted; not retried: its allocation is over" in said
    assert kedge.events()[-1]["code"] == -1003
    wait_until(lambda: kedge.leftovers() == [], DEADLINE, "the end of the Slurm job")


def test_slurmctld_stops_and_comes_back(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge, roles=PAIR)
    slurm.stop_slurmctld()
    kedge.let_go(run)
    kedge.wait_for_output("bye")
    slurm.start_slurmctld()
    kedge("wait", run)
    assert kedge.events()[-1]["state"] == "succeeded"
    wait_until(lambda: kedge.leftovers() == [], DEADLINE, "the end of the Slurm job")


def test_scancel_from_outside(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge)
    slurm.run("scancel", kedge.number(run))
    said = kedge("wait", run, code=1).stdout
    assert "stopped by scancel, from outside of kedge" in said
    assert f"{run} " in kedge("ps").stdout
    wait_until(lambda: kedge.leftovers() == [], DEADLINE, "the end of the Slurm job")


def test_scancel_of_a_job_that_waits(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    slurm.submit("sleep 600", "--exclusive", "--nodes=2")
    run = kedge("run", "-d", kedge.job(WAITS)).stdout.strip()
    wait_until(lambda: slurm.state(kedge.number(run)) == "PENDING", DEADLINE, "pending")
    slurm.run("scancel", kedge.number(run))
    assert "cancelled" in kedge("wait", run, code=1).stdout


def test_a_requeue_keeps_the_number_of_attempts(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge, "--slurm", "requeue=true")
    slurm.run("scontrol", "requeue", kedge.number(run))
    kedge.wait_for_output("ready", attempt=1)
    kedge.let_go(run)
    kedge("wait", run)
    assert [event["attempt"] for event in facts(kedge, "attempt-started")] == [0, 1]
    assert "ready" in kedge.task_log()


def test_slurms_warning_leaves_time_for_hooks_before_the_end_of_the_allocation(kedge: OnSlurm) -> None:
    roles = {"worker": {"prerequisites": ["save"]}}
    kedge("run", "--slurm", "time=1m", kedge.job(WAITS, roles=roles, prerequisites=[SAVE], extras=ONCE), code=1)
    assert (kedge.job_dir() / "saved").exists()
    assert [event["code"] for event in facts(kedge, "task-completed")] == [-1004]
    assert kedge.events()[-1]["code"] == -1004


def test_another_allocation_that_slurm_refuses(kedge: OnSlurm, slurm: SlurmCluster) -> None:
    run = background(kedge, "--slurm", "time=1m", "--slurm", "requeue=true", extras=ONCE)
    slurm.run("scontrol", "update", f"jobid={kedge.number(run)}", "requeue=0")
    assert "the cluster has refused another one" in kedge("wait", run, code=1).stdout
    said = kedge("show", run).stdout
    assert "Ask the site's administrator to allow that jobs are requeued" in said
    assert "presently disabled" in facts(kedge, "note")[-1]["text"]
    assert kedge.events()[-1]["code"] == -1004


def test_a_controller_that_is_killed_is_started_again_and_tasks_do_not_notice(kedge: OnSlurm) -> None:
    run = background(kedge, roles=PAIR)
    first = kedge.controller()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: kedge.controller() != first, DEADLINE, "another controller")
    kedge.let_go(run)
    kedge("wait", run)
    assert kedge.task_log().count("ready") == 1
    assert kedge.task_log().endswith("bye\n")
    assert [event["adopts"] for event in facts(kedge, "controller-restarted")] == [True]
    assert len(facts(kedge, "attempt-started")) == 1
    assert kedge.leftovers() == []


def test_what_a_killed_task_leaves_on_its_node_is_swept_when_the_job_ends(kedge: OnSlurm) -> None:
    run = background(kedge, extras=ONCE)
    keeper = next(pid for pid in _pids(b"--index-variable") if _job(pid) == kedge.number(run))
    tree = [keeper, *(each.pid for each in processes.descendants(keeper))]
    assert _on_node(run)
    for pid in tree:
        os.kill(pid, signal.SIGKILL)
    kedge("wait", run, code=1)
    wait_until(lambda: kedge.leftovers() == [] and not _on_node(run), DEADLINE, "the sweep of the batch script")


def _on_node(run: str) -> list[Path]:
    """The folders of the agents of a run."""
    return [path for parent in ("/tmp", "/dev/shm") for path in Path(parent).glob(f"kedge-agent-*{run}*")]


def _pids(argument: bytes) -> Iterator[int]:
    """The processes with this argument, the oldest first."""
    for path in sorted(Path("/proc").glob("[0-9]*/cmdline"), key=lambda path: int(path.parent.name)):
        with suppress(OSError):
            if argument in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def _job(pid: int) -> str:
    """The number of the Slurm job of a process."""
    with suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        return next((each.partition("=")[2] for each in variables if each.startswith("SLURM_JOB_ID=")), "")
    return ""
