"""Nodes that are drained, or that do not answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .addresses import NODES
from .kedge_on_kubernetes import OnKubernetes
from .own_cluster import OwnCluster

COMMAND = "echo here; [ $FC_TASK_ATTEMPT_ID = 1 ] || while sleep 1; do echo more; done"
ROLES = {"worker": {"instances": 2, "resourcePerInstance": {"cpu": 0.1, "memoryMB": 64, "gpu": 0}}}
ALONE = {"extras": {"gangAllocation": False}}


def wait_for_tasks(kedge: OnKubernetes) -> None:
    for index in range(2):
        kedge.wait_for_log("more", f"worker-{index}")


def nodes(kedge: OnKubernetes, component: str = "task") -> set[str]:
    return {pod["spec"].get("nodeName", "") for pod in kedge.pods(component)}


def is_deleted(kedge: OnKubernetes, name: str) -> bool:
    return "deletionTimestamp" in kedge.namespace.pod(name).get("metadata", {})


def test_a_drained_node_ends_tasks_and_the_driver_and_all_go_on_elsewhere(
    cluster_alone: OwnCluster, kedge: OnKubernetes
) -> None:
    first, second = NODES
    cluster_alone.kubectl("cordon", second)
    process = kedge.start("run", kedge.job(COMMAND, roles=ROLES, **ALONE))
    wait_for_tasks(kedge)
    assert nodes(kedge) == nodes(kedge, "driver") == {first}
    cluster_alone.kubectl("uncordon", second)
    # In a cluster without DNS, pods that are being deleted do not learn where the new driver is: they get less grace.
    said = cluster_alone.drain(first, "--grace-period=15")
    assert said.count("evicted") >= 3
    out = kedge.finish(process, 0)
    retried = kedge.named("task-retrying")
    assert {each["index"] for each in retried} == {0, 1}
    assert {(each["code"], each["why"]) for each in retried} == {(-101, "removed_outside is transient")}
    assert [each["node"] for each in kedge.named("task-placed")][-2:] == [second, second]
    assert "the job's controller was started again" in out


def test_a_node_that_does_not_answer_is_no_end_until_the_cluster_says_so(
    cluster_alone: OwnCluster, kedge: OnKubernetes, tmp_path: Path
) -> None:
    """Its kubelet is stopped. One pod is removed by force, as administrators do; of the other one the node tells when
    it is back. Meanwhile both tasks run on, and are heard of."""
    first, second = NODES
    kedge.site(driver_node_selector=f"kubernetes.io/hostname={first}", pod_patch=str(_prefers(second, tmp_path)))
    process = kedge.start("run", kedge.job(COMMAND, roles=ROLES, **ALONE))
    wait_for_tasks(kedge)
    assert (nodes(kedge), nodes(kedge, "driver")) == ({second}, {first})
    pods = [kedge.pod_of("worker", index)["metadata"]["name"] for index in range(2)]
    cluster_alone.stop_kubelet(second)
    wait_until(lambda: all(is_deleted(kedge, pod) for pod in pods), TIMEOUT, "the deletion of the pods")
    lines = len(kedge.task_log("worker-0").splitlines())
    wait_until(lambda: len(kedge.task_log("worker-0").splitlines()) > lines, TIMEOUT, "more output")
    assert kedge.named("task-retrying") == []
    kedge.namespace.kubectl("delete", "pod", pods[0], "--force", "--grace-period=0", "--wait=false")
    wait_until(lambda: len(kedge.named("task-completed")) == 1, TIMEOUT, "the end of the first task elsewhere")
    assert [each["index"] for each in kedge.named("task-retrying")] == [0]
    cluster_alone.heal()
    out = kedge.finish(process, 0)
    retried = kedge.named("task-retrying")
    assert [(each["index"], each["code"], each["why"]) for each in retried] == [
        (index, -1001, "node_failure is transient") for index in range(2)
    ]
    assert f"worker:0 failed: the task's node was lost (node {second}): the cluster removed the pod because of" in out
    placed = [(each["index"], each["node"]) for each in kedge.named("task-placed")]
    assert (0, first) in placed


def _prefers(node: str, folder: Path) -> Path:
    """A patch for pods that go to a node while it takes them."""
    term: dict[str, Any] = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [term]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    file = folder / "patch.yaml"
    file.write_text(json.dumps({"spec": {"affinity": affinity}}))
    return file
