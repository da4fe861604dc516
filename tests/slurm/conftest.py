"""A Slurm cluster for the tests of this folder: one for each worker of pytest."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import accounting, cluster, configuration
from .cluster import SlurmCluster
from .configuration import free_ports
from .kedge_on_slurm import OnSlurm


@pytest.fixture(scope="session")
def own_cluster() -> Iterator[SlurmCluster]:
    """The cluster of this worker."""
    with_reason(cluster.missing())
    with SlurmCluster() as slurm:
        slurm.start()
        yield slurm


@pytest.fixture
def slurm(own_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """A cluster with two idle nodes and no jobs, whatever other tests did to it. Its logs are shown if a test fails."""
    own_cluster.heal()
    yield own_cluster
    print(own_cluster.logs())


@pytest.fixture(scope="module")
def with_accounts() -> Iterator[SlurmCluster]:
    """A cluster of its own that keeps accounts, enforces memory and soon forgets jobs that have ended."""
    with_reason(cluster.missing() or accounting.missing())
    port = free_ports(1)[0]
    with SlurmCluster(accounting.lines(port) + "MinJobAge=2\nJobAcctGatherParams=OverMemoryKill\n") as slurm:
        accounting.start(slurm, port)
        slurm.start()
        yield slurm


@pytest.fixture
def kedge(slurm: SlurmCluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnSlurm]:
    """kedge, whose jobs run on the cluster."""
    command = OnSlurm(tmp_path, slurm, tmp_path_factory.getbasetemp().parent / "cache")
    yield command
    command.close()


@pytest.fixture(scope="module")
def with_cgroups() -> Iterator[SlurmCluster]:
    """A cluster of its own whose steps have control groups, in which the kernel enforces memory."""
    with_reason(cluster.missing() or configuration.no_cgroups())
    with open("/tmp/kedge-test-cgroups", "w") as lock:  # groups of all clusters have the same names
        fcntl.flock(lock, fcntl.LOCK_EX)
        with SlurmCluster("ProctrackType=proctrack/linuxproc\nTaskPlugin=task/cgroup\n") as slurm:
            configuration.write_cgroups(slurm.folder)
            slurm.start()
            yield slurm


@pytest.fixture
def kedge_with_cgroups(
    with_cgroups: SlurmCluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OnSlurm]:
    """kedge, whose jobs run on the cluster with control groups."""
    command = OnSlurm(tmp_path, with_cgroups, tmp_path_factory.getbasetemp().parent / "cache")
    yield command
    command.close()


@pytest.fixture
def kedge_with_accounts(
    with_accounts: SlurmCluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OnSlurm]:
    """kedge, whose jobs run on the cluster that keeps accounts."""
    with_accounts.heal()
    command = OnSlurm(tmp_path, with_accounts, tmp_path_factory.getbasetemp().parent / "cache")
    yield command
    command.close()


@pytest.fixture(scope="module")
def with_threads() -> Iterator[SlurmCluster]:
    """A cluster of its own that gives whole cores of two threads, and has GPUs of two types."""
    with_reason(cluster.missing())
    with SlurmCluster(configuration.WHOLE_CORES, configuration.THREADED) as slurm:
        slurm.start()
        yield slurm


@pytest.fixture
def slurm_own(slurm: SlurmCluster) -> Iterator[Path]:
    """A folder with the same path on this machine and on all nodes, which they do not share."""
    yield slurm.own
    shutil.rmtree(slurm.own, ignore_errors=True)
    slurm.own.mkdir()


def with_reason(reason: str) -> None:
    """Skip the test if there is a reason."""
    if reason:
        pytest.skip(reason)
