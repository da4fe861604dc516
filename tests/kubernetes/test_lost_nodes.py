"""A node is lost with all that runs on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kedge.testing.command import TIMEOUT
from kedge.testing.wait import wait_until

from .addresses import NODES
from .kedge_on_kubernetes import OnKubernetes
from .namespaces import UNTIL_TOLD
from .own_cluster import OwnCluster
from .test_node_ends import ALONE, ROLES, is_deleted, nodes

DRIVERS = "kedge-test/drivers=yes"  # a label of the nodes that take drivers
COUNTS = f"i=0; {UNTIL_TOLD} i=$((i+1)); echo line $i; sleep 0.5; done"
COMMAND = f"if [ $FC_TASK_ATTEMPT_ID = 1 ]; then echo again; else {COUNTS}; fi"


def test_a_node_is_lost_with_the_driver_and_one_of_two_tasks(
    cluster_alone: OwnCluster, kedge: OnKubernetes, tmp_path: Path
) -> None:
    """Another driver goes on with the other task, and when the node is given up, the lost one is tried again."""
    second, first = NODES  # Kubernetes 1.20 never deletes the pods of a node that came before all others
    kedge.namespace.claim("runs")
    kedge.site(run_volume="runs", driver_node_selector=DRIVERS, pod_patch=str(_apart(tmp_path)))
    with _taking_drivers(cluster_alone, first):
        process = kedge.start("run", kedge.job(COMMAND, roles=ROLES, **ALONE))
        for index in range(2):
            kedge.wait_for_log("line 3", f"worker-{index}")
        assert nodes(kedge, "driver") == {first}
        pods = {pod["spec"]["nodeName"]: pod for pod in kedge.pods()}
        lost, kept = _index(pods[first]), _index(pods[second])
        before = kedge.task_log(f"worker-{lost}")
        cluster_alone.lose_node(first)
        with _taking_drivers(cluster_alone, second):
            _give_up(kedge, pods[first]["metadata"]["name"])
            wait_until(lambda: kedge.named("task-retrying"), TIMEOUT, "another attempt of the task")
            kedge.namespace.let_go_on(pods[second]["metadata"]["name"])
            said = kedge.finish(process, 0)
    retried = [(each["index"], each["code"], each["why"]) for each in kedge.named("task-retrying")]
    assert retried == [(lost, -1001, "node_failure is transient")]
    assert f"worker:{lost} failed: the task's node was lost (node {first})" in said
    assert f"{first} did not confirm the end of the pod for" in said
    assert "the job's controller was started again" in said
    arrived = kedge.task_log(f"worker-{lost}")
    assert arrived.startswith(before)
    assert _is_whole(arrived)
    (note,) = [each["text"] for each in kedge.named("note") if "nothing is known" in each["text"]]
    assert note.startswith(f"worker:{lost}: the end of its logs and its outputs may be missing")
    assert f"byte {len(arrived)} of user-all/current" in note
    assert kedge.task_log(f"worker-{lost}.1") == "again\n"
    assert _is_whole(kedge.task_log(f"worker-{kept}"))
    placed = {(each["index"], each["node"]) for each in kedge.named("task-placed")}
    assert placed == {(lost, first), (lost, second), (kept, second)}


def _give_up(kedge: OnKubernetes, pod: str) -> None:
    """The cluster deletes a pod, and the administrator does not leave it the two minutes of grace that it has."""
    wait_until(lambda: is_deleted(kedge, pod), TIMEOUT, "the deletion of the pod")
    kedge.namespace.kubectl("delete", "pod", pod, "--grace-period=10", "--wait=false")


def _is_whole(log: str) -> bool:
    """Whether a log has every line up to its last one."""
    lines = log.splitlines()
    return lines == [f"line {number}" for number in range(1, len(lines) + 1)]


def _index(pod: dict[str, Any]) -> int:
    return int(pod["metadata"]["labels"]["kedge.io/task-index"])


@contextmanager
def _taking_drivers(cluster: OwnCluster, node: str) -> Iterator[None]:
    label, _, _ = DRIVERS.partition("=")
    cluster.kubectl("label", "node", node, DRIVERS)
    try:
        yield
    finally:
        cluster.kubectl("label", "node", node, f"{label}-")


def _apart(folder: Path) -> Path:
    """A patch for tasks that go to different nodes if they can."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"kedge.io/component": "task"}}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    file = folder / "patch.yaml"
    file.write_text(json.dumps({"spec": {"affinity": affinity}}))
    return file
