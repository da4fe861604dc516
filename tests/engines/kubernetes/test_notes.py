"""What the submitter of a job should know."""

from __future__ import annotations

from kedge.engines.kubernetes import notes
from kedge.engines.kubernetes.options import KubernetesOptions

from .jobs import CASES


def of(name: str, options: KubernetesOptions) -> str:
    return "\n".join(notes.of(CASES[name].plan, options))


def test_where_outputs_are() -> None:
    assert "with up to 100 MiB of a task's outputs, is in the job's driver" in of("one-role", KubernetesOptions())
    found = of("one-role", KubernetesOptions(outputs_volume="results"))
    assert "outputs and $KEDGE_JOB_DIR are on the claim results of the namespace" in found
    assert "100 MiB" not in found


def test_what_tasks_with_rdma_lack() -> None:
    assert "tasks of worker get rdma/hca, but not the capability IPC_LOCK" in of("ps-worker-gpus", KubernetesOptions())
    assert "IPC_LOCK" not in of("ps-worker-gpus", KubernetesOptions(privileged=True))
    assert "IPC_LOCK" not in of("one-role", KubernetesOptions())
