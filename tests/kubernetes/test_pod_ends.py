"""Pods that the cluster, or somebody, ends: with which code and cause, whether they are tried again, and what is said.

Where all other ends are tried is in tests/engines/kubernetes/pods/test_end_table.py."""

from __future__ import annotations

import os
from typing import Any

from .kedge_on_kubernetes import OnKubernetes
from .own_cluster import OwnCluster

SLEEPS_ONCE = "echo here; [ $FC_TASK_ATTEMPT_ID = 1 ] || sleep 600"
ALONE = {"extras": {"gangAllocation": False}}
SMALL = {"cpu": 0.1, "memoryMB": 64, "gpu": 0}
_PER_NODE = 40  # CPUs, of 64


def role(command: str, **keys: Any) -> dict[str, Any]:
    """A role whose failures do not end the job."""
    goes_on = {"minFailedInstances": -1, "minSucceededInstances": -1}
    return {"commands": [command], "resourcePerInstance": SMALL, "completion": goes_on, **keys}


def ends(kedge: OnKubernetes) -> dict[str, tuple[int, str]]:
    """How the first attempt of each role's first task ended: its code, and why it is tried again or not."""
    found: dict[str, tuple[int, str]] = {}
    for event in kedge.events():
        if event["event"] in ("task-retrying", "task-completed") and event["task_attempt"] == event["index"] == 0:
            found[event["role"]] = (event["code"], event["why"])
    return found


def test_each_end_from_outside_has_its_cause(kedge: OnKubernetes) -> None:
    fills = "dd if=/dev/zero of=/dev/shm/file bs=1M count=4; sleep 600"
    roles = {
        "deleted": role(SLEEPS_ONCE),
        "evicted": role(SLEEPS_ONCE),
        "hungry": role("tail /dev/zero"),
        "shared": role(fills, extraContainerOptions={"shmMB": 1}),
    }
    process = kedge.start("run", kedge.job("", roles=roles, **ALONE))
    for each in ("deleted", "evicted"):
        kedge.wait_for_log("here", f"{each}-0")
    kedge.namespace.kubectl("delete", "pod", kedge.pod_of("deleted")["metadata"]["name"], "--wait=false")
    kedge.evict(kedge.pod_of("evicted")["metadata"]["name"])
    said = kedge.finish(process, 0)
    again, final = "removed_outside is transient", "is permanent, a retry would fail the same way"
    assert ends(kedge) == {
        "deleted": (-101, again),
        "evicted": (-101, again),  # 1.20 does not tell it from a deletion
        "hungry": (137, f"host_oom_kill {final}"),  # with version 1 of control groups only the process is killed
        "shared": (-1000, f"shm_exhausted {final}"),
    }
    for each in ("deleted", "evicted"):
        assert f"{each}:0 failed: somebody outside this job deleted the task's pod (node node" in said
    assert "shared:0 failed: the task used more shared memory than it may (node node" in said
    shown = kedge("show", kedge.only_run().name).stdout
    assert "Succeeded by its completion policy; 2 of 4 tasks failed" in shown
    assert "host_oom_kill (permanent, sure)" in shown
    assert "1 other task failed: shm_exhausted" in shown
    assert kedge.leftovers() == []


def test_a_pod_that_is_preempted_is_tried_again(kedge: OnKubernetes, cluster: OwnCluster) -> None:
    low, high = (f"{name}-{os.urandom(3).hex()}" for name in ("low", "high"))
    for name, value in ((low, -10), (high, 1000)):
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        cluster.apply({**priority, "value": value})
    try:
        size = {**SMALL, "cpu": _PER_NODE}
        job = kedge.job(SLEEPS_ONCE, roles={"worker": {"instances": 2, "resourcePerInstance": size}}, **ALONE)
        process = kedge.start("run", "--kubernetes", f"priority-class={low}", job)
        for index in range(2):
            kedge.wait_for_log("here", f"worker-{index}")
        limits = {"limits": {"cpu": _PER_NODE}}
        kedge.namespace.run("other", "sleep 600", priorityClassName=high, resources=limits)
        kedge.namespace.wait_for_phase("other", "Running")
        kedge.wait_for_show("waiting", "none of 2 nodes can take it")
        kedge.namespace.kubectl("delete", "pod", "other", "--wait=false")
        (retried,) = kedge.named("task-retrying")
        other = kedge.pod_of("worker", 1 - retried["index"])["metadata"]["name"]
        kedge.namespace.kubectl("delete", "pod", other, "--wait=false")
        said = kedge.finish(process, 0)
    finally:
        cluster.kubectl("delete", "priorityclass", low, high)
    assert (retried["code"], retried["why"]) == (-1003, "preempted is transient")
    assert "failed: the cluster preempted the task (node node" in said
