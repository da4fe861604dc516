"""A Slurm cluster for the tests of this folder: one for each worker of pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from . import cluster
from .cluster import SlurmCluster


@pytest.fixture(scope="session")
def own_cluster() -> Iterator[SlurmCluster]:
    """The cluster of this worker."""
    with_reason(cluster.missing())
    slurm = SlurmCluster()
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.close()


@pytest.fixture
def slurm(own_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """A cluster with two idle nodes and no jobs, whatever other tests did to it. Its logs are shown if a test fails."""
    own_cluster.heal()
    yield own_cluster
    print(own_cluster.logs())


@pytest.fixture
def another_cluster() -> Iterator[Callable[[str], SlurmCluster]]:
    """Makes clusters with more lines in slurm.conf. They are not started yet."""
    with_reason(cluster.missing())
    made: list[SlurmCluster] = []

    def make(extra: str) -> SlurmCluster:
        made.append(SlurmCluster(extra))
        return made[-1]

    yield make
    for slurm in made:
        print(slurm.logs())
        slurm.close()


def with_reason(reason: str) -> None:
    """Skip the test if there is a reason."""
    if reason:
        pytest.skip(reason)
