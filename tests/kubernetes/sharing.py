"""Two clusters for all processes of a run of pytest: one for all tests, and one for those that disturb theirs, which
have it one after the other.

A cluster is started by the first test that wants it, and ended by the process that the user started. This is a plugin
of that process, too (tests/conftest.py).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from . import programs
from .cluster import Cluster
from .images import locked
from .own_cluster import OwnCluster

_CLUSTER = "cluster"
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
        for cluster in folder.glob(f"*/{_CLUSTER}"):
            OwnCluster(cluster).close()
        shutil.rmtree(folder, ignore_errors=True)


def open_cluster(name: str) -> Cluster:
    """A cluster of this run of pytest, which runs when this returns. Skips the test where there can be none."""
    if file := programs.kubeconfig():
        return Cluster(Path(file))
    if reason := programs.missing():
        pytest.skip(reason)
    folder = _folder(name)
    cluster = OwnCluster(folder / _CLUSTER)
    with locked(folder / "start"):
        if not (folder / "started").exists():
            _start(cluster, folder)
    return cluster


def _folder(name: str) -> Path:
    folder = Path(os.environ[_VARIABLE], name)
    for each in (folder.parent, folder):
        each.mkdir(mode=0o755, exist_ok=True)
    return folder


def _start(cluster: OwnCluster, folder: Path) -> None:
    failure = folder / "failure"
    if failure.exists():  # it would fail again, after some minutes
        pytest.fail(f"the cluster could not be started:\n{failure.read_text()}")
    try:
        cluster.start(int(folder.parent.name.rpartition("-")[2]))
    except BaseException as error:
        failure.write_text(f"{error}\n{cluster.logs()}")
        cluster.close()
        raise
    (folder / "started").touch()


def alone(name: str) -> AbstractContextManager[None]:
    """No other test has this cluster alone meanwhile."""
    return locked(_folder(name) / "alone")
