"""One cluster for all processes of a run of pytest. Who disturbs it has it alone.

It is started by the first test that wants it, and ended by the process that the user started. This is a plugin of that
process, too (tests/conftest.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import programs
from .cluster import Cluster
from .images import locked
from .own_cluster import OwnCluster

_VARIABLE = "KEDGE_TEST_KUBERNETES"  # the folder of this run, also for what pytest starts: workers, and reruns of tests


def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder."""
    if _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = str(Path(tempfile.gettempdir(), f"kedge-kubernetes-{os.getpid()}"))
        config.stash[_OWNER] = True


_OWNER = pytest.StashKey[bool]()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the cluster if there is one, before anything else runs on this machine."""
    if config.stash.get(_OWNER, False):
        folder = Path(os.environ.pop(_VARIABLE))
        if folder.exists():
            OwnCluster(folder / "cluster").close()
            shutil.rmtree(folder)


def open_cluster() -> Cluster:
    """The cluster of this run of pytest, which runs when this returns. Skips the test where there can be none."""
    if file := programs.kubeconfig():
        return Cluster(Path(file))
    if reason := programs.missing():
        pytest.skip(reason)
    folder = Path(os.environ[_VARIABLE])
    folder.mkdir(mode=0o755, exist_ok=True)
    cluster = OwnCluster(folder / "cluster")
    with locked(folder / "start"):
        if not (folder / "started").exists():
            _start(cluster, folder)
    return cluster


def _start(cluster: OwnCluster, folder: Path) -> None:
    failure = folder / "failure"
    if failure.exists():  # it would fail again, after some minutes
        pytest.fail(f"the cluster could not be started:\n{failure.read_text()}")
    try:
        cluster.start(int(folder.name.rpartition("-")[2]))
    except BaseException as error:
        failure.write_text(f"{error}\n{cluster.logs()}")
        cluster.close()
        raise
    (folder / "started").touch()


@contextlib.contextmanager
def used(alone: bool = False) -> Iterator[None]:
    """Nobody disturbs the cluster meanwhile, and nobody else uses it if it is to be used alone."""
    if programs.kubeconfig():
        yield
        return
    folder = Path(os.environ[_VARIABLE])
    with contextlib.ExitStack() as stack:
        # Whoever waits to be alone keeps the turn, so that no others start meanwhile.
        with locked(folder / "turn"):
            stack.enter_context(locked(folder / "use", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        yield
