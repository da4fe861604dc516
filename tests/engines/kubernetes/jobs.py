"""Jobs for the tests of what is rendered for Kubernetes. Each of CASES has a golden file: what `kedge plan` shows.

After a change that is wanted: `python -m tests.engines.kubernetes.jobs` writes the golden files again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kedge.engines.kubernetes import plan_manifests
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.jobs.preparation import prepare
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs, Mount, RemoteStorage, VolumeClaim

GOLDEN = Path(__file__).parent / "golden"
RUNTIME = "registry.example.org/kedge-runtime:1"
IMAGE = "registry.example.org/vision/torch:2.3"


class Case(NamedTuple):
    """A job, and how a site runs it."""

    roles: Mapping[str, dict[str, Any]]
    options: KubernetesOptions = KubernetesOptions(image=RUNTIME)
    extras: Mapping[str, Any] = {}
    more: Mapping[str, Any] = {}
    image: Mapping[str, Any] = {}
    mounts: tuple[Mount, ...] = ()
    has_code: bool = False

    @property
    def plan(self) -> Plan:
        with tempfile.TemporaryDirectory() as folder:
            workdir = folder if self.has_code else None
            found = planned(self.roles, self.extras, self.more, self.image, workdir)
        return replace(found, mounts=self.mounts)


def role(instances: int, cpu: float, memory_mb: int, gpu: int = 0) -> dict[str, Any]:
    return {"instances": instances, "resourcePerInstance": {"cpu": cpu, "memoryMB": memory_mb, "gpu": gpu}}


def planned(
    roles: Mapping[str, dict[str, Any]],
    extras: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    image: Mapping[str, Any] | None = None,
    workdir: str | None = None,
) -> Plan:
    """The plan of a job with these roles; `more` are other keys of the file, `image` more keys of the image."""
    usual = {"dockerImage": "image", "commands": ["python train.py"]}
    document = {
        "protocolVersion": 2, "name": "train", "type": "job", "extras": dict(extras or {}),
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": IMAGE, **(image or {})}],
        "taskRoles": {name: {**usual, **own} for name, own in roles.items()},
        **(more or {}),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(yaml.safe_dump(document))
        return prepare(str(path), Inputs(user="ada", workdir=workdir)).plan


_PATCH = {
    "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "fast"}},
    "spec": {
        "schedulerName": "volcano",
        "containers": [{"name": "app", "env": [{"name": "NCCL_IB_HCA", "value": "mlx5"}]}],
    },
}
_SITE = KubernetesOptions(
    image=RUNTIME, image_pull_policy="IfNotPresent", priority_class="batch", node_selector="gpu-type=a100,zone=b",
    gpu="amd.com/gpu", rdma="rdma/ib", tolerations=["gpu-only", "team=vision:NoSchedule"], pull_secrets=["site-images"],
    run_as_user=1000, run_as_group=100, host_paths=["/lustre"], run_volume="kedge-runs", outputs_volume="kedge-outputs",
    driver_cpu="1", driver_memory="1Gi", queue="team-a", network_policy="both",
    driver_node_selector="pool=cpu", pod_patch=json.dumps(_PATCH),
)  # fmt: skip
_MOUNTS = (
    Mount("data", "/data", read_only=True, claim=VolumeClaim("datasets", "public")),
    Mount("data", "/more", read_only=True, claim=VolumeClaim("datasets", "public")),
    Mount("Home_1", "/home/ada", remote=RemoteStorage("nfs", "nas.example.org", "/export/home/ada")),
    Mount("scratch", "/scratch", folder="/lustre/scratch"),
)
_AUTH = {"auth": {"username": "puller", "password": "<% $secrets.registry %>", "registryuri": "registry.example.org"}}
CASES = {
    "one-role": Case({"worker": role(2, 4, 8192)}),
    "ps-worker-gpus": Case(
        {
            "ps": role(2, 0.5, 16384),
            "worker": role(4, 8, 65536, 2) | {"extraContainerOptions": {"shmMB": 4096, "infiniband": True}},
        }
    ),
    "everything": Case(
        {"Worker_A": role(2, 1.5, 1024, 1)}, _SITE, {"gangAllocation": True}, {"secrets": {"registry": "hunter2"}},
        _AUTH, _MOUNTS, has_code=True,
    ),
    "restricted": Case({"worker": role(1, 1, 1024)}, KubernetesOptions(image=RUNTIME, restricted=True)),
    "privileged": Case(
        {"worker": role(1, 1, 1024, 1)}, KubernetesOptions(image=RUNTIME, privileged=True, host_network=True)
    ),
}  # fmt: skip


def text(case: Case) -> str:
    """What is shown of a case."""
    found = plan_manifests.requests(case.plan, case.options, None)
    return "".join(f"{request.title}\n{request.command}" for request in found)


if __name__ == "__main__":
    for name, case in CASES.items():
        (GOLDEN / f"{name}.yaml").write_text(text(case))
