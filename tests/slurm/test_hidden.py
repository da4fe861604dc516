"""Partitions that Slurm shows to nobody but administrators who do not ask for all."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.test_lost import AS_NOBODY, NOBODY

from kedge.testing.wait import wait_until

from .cluster import DEADLINE, SlurmCluster
from .configuration import PARTITIONS
from .kedge_on_slurm import AsNobody
from .test_jobs import WAITS

_ASKS = """
import sys, time
from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.in_allocation.node_question import NodeQuestion
question = NodeQuestion(SlurmSite(), {"n1"})
while (answer := question.answer()) is None:
    time.sleep(0.05)
print(*answer)
"""


@pytest.fixture
def hidden(slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster, whose partitions are all hidden."""
    _hide(slurm, "YES")
    yield slurm
    _hide(slurm, "NO")


def _hide(slurm: SlurmCluster, answer: str) -> None:
    for name in PARTITIONS:
        slurm.run("scontrol", "update", f"PartitionName={name}", f"Hidden={answer}")


@pytest.fixture
def nobody(hidden: SlurmCluster) -> Iterator[AsNobody]:
    """kedge of a user without privileges, to whom Slurm hides things."""
    folder = Path(tempfile.mkdtemp())
    try:
        shutil.chown(folder, NOBODY)
        with closing(AsNobody(folder, hidden)) as made:
            yield made
    finally:
        shutil.rmtree(folder)


def test_a_job_that_waits_in_a_hidden_partition_is_seen_and_stopped(nobody: AsNobody, hidden: SlurmCluster) -> None:
    hidden.submit("sleep 600", "--exclusive", "--nodes=2")
    run = nobody("run", "-d", nobody.job(WAITS)).stdout.strip()
    hidden.wait_for_state(nobody.number(run), "PENDING")
    assert "pending" in nobody("ps").stdout
    nobody("stop", run)
    hidden.wait_for_state(nobody.number(run), "CANCELLED")
    assert "by a stop request" in nobody("show", run).stdout


def test_nodes_of_hidden_partitions_are_known(hidden: SlurmCluster) -> None:
    argv = [*AS_NOBODY, sys.executable, "-c", _ASKS]
    done = subprocess.run(argv, env=hidden.environment, capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout == "n1\n"


def test_a_program_beside_a_task_in_a_hidden_partition(nobody: AsNobody) -> None:
    run = nobody("run", "-d", nobody.job(WAITS)).stdout.strip()
    nobody.wait_for_output("ready")
    assert nobody("exec", run, "worker:0", "--", "echo", "beside").stdout == "beside\n"
    nobody.let_go(run)
    nobody("wait", run)
    wait_until(lambda: nobody.leftovers() == [], DEADLINE, "the end of the Slurm job")
