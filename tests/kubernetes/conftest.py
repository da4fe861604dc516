"""Kubernetes clusters for the tests of this folder, shared by all workers of pytest; a namespace for each test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from tests import runtime_image
from tests.e2e.conftest import image, shared

from . import image_names, images, sharing
from .cluster import Cluster
from .kedge_on_kubernetes import OnKubernetes
from .namespaces import Namespace
from .own_cluster import OwnCluster

__all__ = ["image", "shared"]

_DISTURBED = "disturbed"
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember which tests have failed: only for them the state of the cluster is asked for."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


def _has_failed(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.stash.get(_FAILED, False))


@pytest.fixture(scope="session")
def clusters() -> Iterator[dict[str, Cluster]]:
    """Those that were opened so far, by their names."""
    opened: dict[str, Cluster] = {}
    yield opened
    for cluster in opened.values():
        cluster.forget_all()


@pytest.fixture
def any_cluster(request: pytest.FixtureRequest, clusters: dict[str, Cluster]) -> Cluster:
    """The cluster of most tests; that of those that disturb theirs if the test asks for `cluster_alone`."""
    name = _DISTURBED if "cluster_alone" in request.fixturenames else "shared"
    if name not in clusters:
        clusters[name] = sharing.open_cluster(name)
    return clusters[name]


@pytest.fixture
def with_busybox(request: pytest.FixtureRequest, any_cluster: Cluster) -> Cluster:
    """The same. Its nodes have the image busybox, or can pull it."""
    if isinstance(any_cluster, OwnCluster):
        image: Callable[[str], str] = request.getfixturevalue("image")
        images.load_once(any_cluster, image("busybox"))
    elif reason := image_names.missing():
        pytest.skip(reason)
    return any_cluster


@pytest.fixture
def with_runtime(with_busybox: Cluster) -> Cluster:
    """The same. Its nodes have the image of kedge's runtime, too."""
    if isinstance(with_busybox, OwnCluster):
        images.load_runtime(with_busybox, runtime_image.archive)
    return with_busybox


@pytest.fixture
def own_cluster(any_cluster: Cluster) -> OwnCluster:
    """The same, if the tests have started it."""
    if not isinstance(any_cluster, OwnCluster):
        pytest.skip("the test disturbs or inspects a cluster, so it needs one that the tests have started")
    return any_cluster


@pytest.fixture
def undisturbed(request: pytest.FixtureRequest, any_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, which other tests use, too. Its logs are shown if a test fails."""
    yield any_cluster
    if _has_failed(request):
        print(any_cluster.logs())


@pytest.fixture
def cluster(own_cluster: OwnCluster, undisturbed: Cluster) -> OwnCluster:
    """The same, if the tests have started it."""
    return own_cluster


@pytest.fixture
def cluster_alone(request: pytest.FixtureRequest, own_cluster: OwnCluster) -> Iterator[OwnCluster]:
    """A cluster that no other test uses meanwhile, so that its programs and nodes may be ended."""
    with sharing.alone(_DISTURBED):
        yield own_cluster
        if _has_failed(request):
            print(own_cluster.logs())
        own_cluster.heal()


@pytest.fixture
def namespace(request: pytest.FixtureRequest, with_busybox: Cluster, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace in the cluster that the test uses."""
    alone = "cluster_alone" in request.fixturenames
    cluster = request.getfixturevalue("cluster_alone" if alone else "undisturbed")
    made = Namespace(cluster, tmp_path)
    yield made
    if _has_failed(request):
        print(made.describe())
    made.close()


@pytest.fixture
def kedge(
    with_runtime: Cluster, namespace: Namespace, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OnKubernetes]:
    """kedge, whose jobs run in the namespace of the test."""
    command = OnKubernetes(tmp_path, namespace, tmp_path_factory.getbasetemp().parent / "cache")
    yield command
    command.close()
