"""A small Kubernetes API server, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.engines.kubernetes.api import KubernetesApi
from kedge.testing.kubernetes_api.server import FakeKubernetes


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[FakeKubernetes]:
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    with FakeKubernetes.serving(folder, namespace="team") as server:
        yield server


@pytest.fixture
def api(kubernetes: FakeKubernetes) -> Iterator[KubernetesApi]:
    found = KubernetesApi.connect(str(kubernetes.kubeconfig))
    yield found
    found.close()
