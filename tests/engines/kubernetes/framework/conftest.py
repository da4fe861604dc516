"""A server that knows Frameworks, a FrameworkController that is moved step by step, and kedge on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.kubernetes.access import submitted
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.engine import KubernetesEngine
from kedge.jobs import submission as jobs
from kedge.jobs.preparation import prepare
from kedge.jobs.submission import Submitted
from kedge.resolve.model import Inputs
from kedge.testing.framework_controller import FrameworkController
from kedge.testing.kubernetes_api.resources import ResourceKind
from kedge.testing.kubernetes_api.server import FakeKubernetes

from ..conftest import api, kubernetes

__all__ = ["api", "kubernetes"]
FRAMEWORK = ResourceKind("Framework", "frameworks", "frameworkcontroller.microsoft.com")
IMAGE = "registry.example.org/kedge/kedge-runtime:1"
JOB = """
protocolVersion: 2
name: fake
type: job
jobRetryCount: {retries}
prerequisites:
- {{name: image, type: dockerimage, uri: busybox, auth: {{username: ada, password: <% $secrets.token %>}}}}
secrets: {{token: hunter2hunter2}}
extras: {{gangAllocation: {gang}}}
taskRoles:
  work_er:
    instances: 2
    taskRetryCount: {task_retries}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: [echo hello]
"""


@pytest.fixture
def frameworks(kubernetes: FakeKubernetes) -> FakeKubernetes:
    """The server with the kind, and the account of the pods."""
    kubernetes.add_kind(FRAMEWORK)
    accounts = kubernetes.place("/api/v1/namespaces/team/serviceaccounts").kind
    kubernetes.store.add(accounts, {"metadata": {"name": "runtime-account", "namespace": "team"}})
    return kubernetes


class FrameworkBench:
    """kedge and FrameworkController on one server. Pods do what a test says."""

    def __init__(self, server: FakeKubernetes, api: KubernetesApi, folder: Path) -> None:
        self.server, self.api, self.folder = server, api, folder
        self.controller = FrameworkController(api)

    def engine(self, **options: Any) -> KubernetesEngine:
        given = {"kubeconfig": str(self.server.kubeconfig), "image": IMAGE, "controller": "framework", **options}
        return KubernetesEngine(**given)

    def prepared(self, *, retries: int = 0, task_retries: int = 0, workdir: str | None = None) -> Any:
        file = self.folder / "job.yaml"
        gang = "false" if task_retries else "true"
        file.write_text(JOB.format(retries=retries, gang=gang, task_retries=task_retries))
        return prepare(str(file), Inputs(user="ada", workdir=workdir))

    def submit(self, options: dict[str, Any] | None = None, **job: int) -> Submitted:
        """A job that has been submitted."""
        found = jobs.submit(self.prepared(**job), self.engine(**(options or {})))
        jobs.start(found)
        return found

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.controller.step()

    def framework(self) -> dict[str, Any]:
        (found,) = self.server.listed("Framework")
        return found

    def pods(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.server.listed("Pod"))

    def run_pods(self) -> list[str]:
        """FrameworkController makes the pods, and all of them run."""
        self.step()
        for pod in self.pods():
            self.server.nodes.run(pod)
        self.step()
        return self.pods()

    def gone(self, pod: str) -> None:
        """A pod that is being deleted goes."""
        self.server.nodes.let_go(pod)


@pytest.fixture
def bench(
    frameworks: FakeKubernetes, api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FrameworkBench]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield FrameworkBench(frameworks, api, tmp_path)
    submitted.close_connections()
