"""A run is handed over to a cluster, refused by it, or half handed over."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kedge.engines.kubernetes import archives, code_upload
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.engine import KubernetesEngine
from kedge.engines.kubernetes.objects import run_objects
from kedge.engines.kubernetes.objects.labels import INCOMPLETE
from kedge.errors import CannotRun
from kedge.jobs import submission as jobs
from kedge.jobs.preparation import prepare
from kedge.jobs.submission import Submitted
from kedge.resolve.model import Inputs
from kedge.runs.folder import Run
from kedge.testing.kubernetes_api.server import FakeKubernetes

JOB = """
protocolVersion: 2
name: fake
type: job
prerequisites: [{name: image, type: dockerimage, uri: busybox, auth: {username: ada, password: <% $secrets.token %>}}]
secrets: {token: hunter2hunter2}
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: [echo hello]
"""
IMAGE = "registry.example.org/kedge/kedge-runtime:1"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print('hello')")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "latest").symlink_to("src")
    return folder


@pytest.fixture
def submitted(
    kubernetes: FakeKubernetes, tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Submitted]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    kubernetes.store.add(
        kubernetes.place("/api/v1/namespaces/team/serviceaccounts").kind,
        {"metadata": {"name": "kedge", "namespace": "team"}},
    )
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    where = KubernetesEngine(kubeconfig=str(kubernetes.kubeconfig), image=IMAGE)
    found = jobs.submit(prepare(str(job), Inputs(user="ada", workdir=str(code))), where)
    yield found
    found.controller.close()


def created(kubernetes: FakeKubernetes) -> list[str]:
    """The kinds and names of what exists, without what every namespace has."""
    kinds = ("ConfigMap", "Service", "Secret", "Job", "Pod")
    return sorted(f"{kind} {each['metadata']['name']}" for kind in kinds for each in kubernetes.listed(kind))


def test_all_objects_of_a_run_are_made_and_the_job_last(submitted: Submitted, kubernetes: FakeKubernetes) -> None:
    jobs.start(submitted)
    name = submitted.run.id
    assert created(kubernetes) == sorted([
        f"ConfigMap {name}", f"ConfigMap {name}-address", f"ConfigMap {name}-code-0", f"Job {name}-driver",
        f"Secret {name}-driver", f"Secret {name}-pull", f"Service {name}",
    ])  # fmt: skip
    made = [call.kind for call in kubernetes.calls if call.verb == "create" and "Review" not in call.kind]
    assert made[0] == "ConfigMap"
    assert made[-1] == "Job"


def test_what_was_submitted_is_found_again(submitted: Submitted, kubernetes: FakeKubernetes) -> None:
    jobs.start(submitted)
    files = submitted.run.cluster
    job = files.object(files.job)
    anchor = kubernetes.find("ConfigMap", submitted.run.id)
    assert anchor
    assert job["uid"] == anchor["metadata"]["uid"]
    assert (job["server"], job["namespace"], job["context"]) == (kubernetes.url, "team", "fake")
    assert job["kubeconfig"] == str(kubernetes.kubeconfig)
    assert INCOMPLETE not in anchor["metadata"]["labels"]


def test_the_anchor_owns_everything(submitted: Submitted, kubernetes: FakeKubernetes, api: KubernetesApi) -> None:
    jobs.start(submitted)
    assert api.delete("ConfigMap", submitted.run.id)
    assert created(kubernetes) == []


def test_the_seed_holds_what_the_controller_needs_and_the_code_travels_apart(
    submitted: Submitted, kubernetes: FakeKubernetes
) -> None:
    jobs.start(submitted)
    with tarfile.open(fileobj=io.BytesIO(archives.seed(submitted.run))) as archive:
        names = archive.getnames()
    needed = {"plan.json", "job.yaml", "run.json", "events.jsonl", "cluster/orders.json", "cluster/link.json"}
    assert needed <= set(names)
    assert "cluster/secrets.json" in names
    assert not any(name.startswith(("code", "job-dir", "lock", ".reserve")) for name in names)


def test_the_same_folder_gives_the_same_bytes(submitted: Submitted) -> None:
    assert archives.seed(submitted.run) == archives.seed(submitted.run)
    assert archives.code(submitted.run, 1 << 20) == archives.code(submitted.run, 1 << 20)


def test_code_keeps_its_modes_and_links(submitted: Submitted, tmp_path: Path) -> None:
    (snapshot,) = os.listdir(submitted.run.code)
    with tarfile.open(fileobj=io.BytesIO(archives.code(submitted.run, 1 << 20))) as archive:
        script, link = archive.getmember(f"{snapshot}/run.sh"), archive.getmember(f"{snapshot}/latest")
        assert script.mode & 0o111
        assert (link.issym(), link.linkname) == (True, "src")
        content = archive.extractfile(f"{snapshot}/src/train.py")
        assert content
        assert content.read() == b"print('hello')"


def test_a_run_without_code_has_no_archive_of_it(tmp_path: Path) -> None:
    assert archives.code(Run(tmp_path), 1) == b""


def test_code_that_is_too_large_is_refused_before_anything_is_made(
    submitted: Submitted, kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_upload, "LARGEST", 8 << 20)
    (snapshot,) = submitted.run.code.iterdir()
    snapshot.chmod(0o700)
    (snapshot / "noise").write_bytes(os.urandom(9 << 20))
    with pytest.raises(CannotRun, match=r"more than 8 MiB \(compressed\).*\.kedgeignore"):
        jobs.start(submitted)
    assert created(kubernetes) == []


@pytest.mark.parametrize(
    ("kind", "message", "told"),
    [
        ("Job", "exceeded quota: gpus, requested: count/jobs.batch=1, used: count/jobs.batch=4", "the quota gpus of"),
        ("Job", 'admission webhook "policy.example.org" denied the request: no owner', "policy.example.org says: no"),
        ("Secret", 'violates PodSecurity "restricted:latest": privileged', "standard restricted:latest"),
        ("Service", "unable to create new content in namespace team because it is being terminated", "being deleted"),
        ("ConfigMap", "maximum memory usage per Container is 1Gi, but limit is 2Gi", "Ask for less"),
    ],
)
def test_a_refusal_is_told_in_words_and_leaves_nothing(
    submitted: Submitted, kubernetes: FakeKubernetes, kind: str, message: str, told: str
) -> None:
    kubernetes.rules.refuse(kind, message)
    with pytest.raises(CannotRun, match=told):
        jobs.start(submitted)
    assert created(kubernetes) == []
    assert not submitted.run.path.exists()


def test_an_interrupt_leaves_nothing(
    submitted: Submitted, kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_objects, "address", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jobs.start(submitted)
    assert created(kubernetes) == []


def test_the_run_of_somebody_else_with_the_same_name_is_left_alone(
    submitted: Submitted, kubernetes: FakeKubernetes, api: KubernetesApi
) -> None:
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": submitted.run.id}})
    with pytest.raises(CannotRun, match="already exists"):
        jobs.start(submitted)
    assert created(kubernetes) == [f"ConfigMap {submitted.run.id}"]


@pytest.mark.parametrize(("hours", "left"), [(0, True), (2, False)])
def test_what_a_killed_submitter_left_is_removed_later(
    submitted: Submitted, kubernetes: FakeKubernetes, api: KubernetesApi, hours: int, left: bool
) -> None:
    labels = {"app.kubernetes.io/managed-by": "kedge", INCOMPLETE: "true"}
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "labels": labels}})
    made = datetime.now(UTC) - timedelta(hours=hours)
    stored = kubernetes.find("ConfigMap", "old")
    assert stored
    stored["metadata"]["creationTimestamp"] = made.strftime("%Y-%m-%dT%H:%M:%SZ")
    jobs.start(submitted)
    assert (kubernetes.find("ConfigMap", "old") is not None) == left


def test_a_run_whose_submitter_was_killed_last_of_all_is_kept(
    submitted: Submitted, kubernetes: FakeKubernetes, api: KubernetesApi
) -> None:
    """After it has made the Job, before it has said so."""
    labels = {"app.kubernetes.io/managed-by": "kedge", INCOMPLETE: "true"}
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "labels": labels}})
    stored = kubernetes.find("ConfigMap", "old")
    assert stored
    stored["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}
    api.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "old-driver"}, "spec": {"template": template}}
    )
    jobs.start(submitted)
    kept = kubernetes.find("ConfigMap", "old")
    assert kept
    assert INCOMPLETE not in kept["metadata"]["labels"]
