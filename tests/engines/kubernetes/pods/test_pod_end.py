"""How pods end: every way, with its code, cause and behaviour.

This is the table of ends; a row is what the cluster shows, and what becomes of the task attempt."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engines.kubernetes.pods.shapes import BEGAN, REAL, deleted, disrupted, ended, event, pod

from kedge.engines.base import Task
from kedge.engines.cluster import task_ends
from kedge.engines.cluster.base import GoneKind
from kedge.engines.controller.reports import Launch
from kedge.engines.kubernetes.pods import pod_end
from kedge.engines.kubernetes.pods.pod_end import Asked

K = GoneKind
TASK = Task("worker", 3)
NODE_LOW = "The node was low on resource: {}. Container app was using 1Gi, which exceeds its request of 0. "
DSHM = 'Usage of EmptyDir volume "dshm" exceeds the limit "512Mi". '
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
RUNC = "failed to create containerd task: OCI runtime create failed: runc create failed: "
DELETED_0 = deleted(ended(0))

# name of a real pod -> kind, code of the task attempt, cause, behaviour, words
ON_1_20 = {
    "succeeded": (K.ENDED, 1, "", "", "left no report"),
    "failed": (K.ENDED, 1, "", "", "left no report"),
    "oom": (K.OUT_OF_MEMORY, -1200, "host_oom_kill", "permanent", "lack of memory"),  # its agent still runs
    "oom-alone": (K.OUT_OF_MEMORY, -1200, "host_oom_kill", "permanent", "lack of memory"),
    "oom-child": (K.OUT_OF_MEMORY, -1200, "host_oom_kill", "permanent", "lack of memory"),
    "deadline": (K.OUT_OF_TIME, -1004, "time_limit", "permanent", "longer than the specified deadline"),
    "deleted": (K.DELETED, -101, "removed_outside", "transient", "exit code 0 does not count"),
    "deleted-hard": (K.DELETED, -101, "removed_outside", "transient", "kubectl delete"),
    "evicted": (K.DELETED, -101, "removed_outside", "transient", "drain"),  # 1.20 does not tell it from a deletion
    "low": (K.PREEMPTED, -1003, "preempted", "transient", "Preempted by kends/high on node node2"),
    "storage": (K.EVICTED, -1000, "disk_full", "permanent", "exceeds the total limit of containers 5Mi"),
    "empty-dir": (K.EVICTED, -1000, "disk_full", "permanent", 'Usage of EmptyDir volume "v"'),
    "out-of-cpu": (K.NOT_STARTED, -1002, "node_refused", "transient", "enough resource: cpu"),
    "affinity": (K.NOT_STARTED, -1005, "node_refused", "transient", "NodeAffinity"),
    "port-b": (K.NOT_STARTED, -1006, "node_refused", "transient", "NodePorts"),
    "sysctl": (K.NOT_STARTED, -1005, "bad_config", "permanent", "kernel.msgmax"),
    "init-fails": (K.NOT_STARTED, 1, "container_failure", "permanent", "exit code 4: no space"),
    "agent-fails": (K.NOT_STARTED, 1, "remote_worker_lost", "unknown", "exit code 5"),
    "no-command": (K.NOT_STARTED, -1203, "container_failure", "permanent", "/nope"),
    "no-permission": (K.NOT_STARTED, -1202, "container_failure", "permanent", "permission denied"),
}

ELSEWHERE = [
    # conditions of 1.26 and later; whatever the command made of its SIGTERM
    (disrupted(DELETED_0, "PreemptionByScheduler"), K.PREEMPTED, -1003, "preempted", "transient", "higher priority"),
    (disrupted(DELETED_0, "PreemptionByKubeScheduler"), K.PREEMPTED, -1003, "preempted", "transient", "priority"),
    (disrupted(DELETED_0, "EvictionByEvictionAPI"), K.EVICTED, -1000, "evicted", "transient", "drained"),
    (disrupted(deleted(pod(phase="Failed")), "DeletionByTaintManager"), K.NODE_LOST, -1001, "node_failure",
     "transient", "taint"),
    (disrupted(deleted(pod(phase="Failed")), "DeletionByPodGC"), K.NODE_LOST, -1001, "node_failure", "transient",
     "node that is gone"),
    (disrupted(DELETED_0, "Preempted", kind="TerminationTarget", message="Preempted to accommodate a workload"),
     K.PREEMPTED, -1003, "preempted", "transient", "by Kueue: Preempted to accommodate"),
    (disrupted(DELETED_0, "WorkloadEvicted", kind="TerminationTarget", message="The ClusterQueue is stopped"),
     K.PREEMPTED, -1003, "preempted", "transient", "by Kueue: The ClusterQueue is stopped"),
    (disrupted(DELETED_0, "WorkloadEvicted", kind="TerminationTarget", message="Exceeded the PodsReady timeout n/w"),
     K.EVICTED, -1000, "evicted", "transient", "by Kueue: Exceeded the PodsReady timeout"),
    (disrupted(DELETED_0, "WorkloadEvicted", kind="TerminationTarget", message="The workload is deactivated"),
     K.CANCELLED, -300, "job_cancelled", "unknown", "by Kueue: The workload is deactivated"),
    (disrupted(DELETED_0, "WorkloadDeleted", kind="TerminationTarget", message="The workload is deleted"),
     K.DELETED, -101, "removed_outside", "transient", "its Workload in Kueue was deleted"),
    (disrupted(ended(137, reason="Error", message=""), "TerminationByKubelet")
     | {"status": {"phase": "Failed", "reason": "Terminated", "message": SHUTDOWN}},
     K.EVICTED, -1000, "evicted", "transient", "shut down"),
    (disrupted(DELETED_0, "SomethingNew"), K.EVICTED, -1000, "evicted", "transient", "SomethingNew"),
    # what the kubelet says
    (pod(phase="Failed", reason="Evicted", message=NODE_LOW.format("ephemeral-storage")), K.EVICTED, -1000, "evicted",
     "transient", "low on resource: ephemeral-storage"),
    (pod(phase="Failed", reason="Evicted", message=NODE_LOW.format("memory")), K.EVICTED, -1000, "evicted",
     "transient", "ran out of memory"),
    (ended(0, phase="Failed", reason="Completed") | {"status": {"phase": "Failed", "reason": "Evicted",
     "message": "The node had condition: [DiskPressure]. "}}, K.EVICTED, -1000, "evicted", "transient", "DiskPressure"),
    (pod(phase="Failed", reason="Evicted", message=DSHM), K.EVICTED, -1000, "shm_exhausted", "permanent", "dshm"),
    (pod(phase="Failed", reason="Shutdown", message="Node is shutting, evicting pods"), K.EVICTED, -1000, "evicted",
     "transient", "Node is shutting"),
    (pod(phase="Failed", reason="Preempting", message="Preempted in order to admit critical pod"), K.PREEMPTED, -1003,
     "preempted", "transient", "critical pod"),
    (pod(phase="Failed", reason="NodeLost", message="Node n1 which was running pod p is unresponsive"), K.NODE_LOST,
     -1001, "node_failure", "transient", "unresponsive"),
    (pod(phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed due to no healthy devices"),
     K.NOT_STARTED, -1006, "node_refused", "transient", "no healthy devices"),
    (pod(phase="Failed", reason="OutOfmemory", message="x"), K.NOT_STARTED, -1002, "node_refused", "transient", "Out"),
    (pod(phase="Failed", reason="OutOfpods", message="x"), K.NOT_STARTED, -1002, "node_refused", "transient", "Out"),
    (pod(phase="Failed", reason="OutOfnvidia.com/gpu"), K.NOT_STARTED, -1002, "node_refused", "transient", "gpu"),
    (pod(phase="Failed"), K.NOT_STARTED, -1006, "node_refused", "transient", "does not say why"),
    # containers
    (ended(0, reason="OOMKilled"), K.OUT_OF_MEMORY, -1200, "host_oom_kill", "permanent", "memory"),
    (ended(1, reason="OOMKilled"), K.OUT_OF_MEMORY, -1200, "host_oom_kill", "permanent", "memory"),
    (ended(137), K.ENDED, 137, "", "", "SIGKILL, perhaps because the node ran out of memory"),
    (ended(139), K.ENDED, 139, "", "", "SIGSEGV"),
    (ended(137, reason="ContainerStatusUnknown", message="The container could not be located"), K.NODE_LOST, -1001,
     "node_failure", "transient", "could not be located"),
    (ended(127, reason="ContainerCannotRun", message='exec: "x": executable file not found in $PATH'), K.NOT_STARTED,
     -1203, "container_failure", "permanent", "not found"),
    (ended(128, reason="StartError", message=f"{RUNC}exec /x: exec format error"), K.NOT_STARTED, 254,
     "container_failure", "permanent", "another kind of processor"),
    (ended(128, reason="StartError", message=f"{RUNC}container init was OOM-killed (memory limit too low?)"),
     K.NOT_STARTED, -1200, "host_oom_kill", "permanent", "memory to start"),
    (ended(128, reason="StartError", message="nvidia-container-cli: device error: 3: unknown device id"),
     K.NOT_STARTED, -1205, "gpu_hw_fault", "transient", "unknown device"),
    (ended(128, reason="StartError", message="unable to find user bob: no matching entries in passwd file"),
     K.NOT_STARTED, 254, "container_failure", "permanent", "user bob"),
    (ended(128, reason="StartError", message="something else"), K.NOT_STARTED, -1204, "container_failure", "permanent",
     "something else"),
    (pod(phase="Failed", initContainerStatuses=[{"name": "prepare", "state": {"terminated": {
        "exitCode": 1, "reason": "Error", "message": "cp: write error: No space left on device\n"}}}]),
     K.NOT_STARTED, 1, "disk_full", "permanent", "No space left"),
    (pod(phase="Failed", initContainerStatuses=[{"name": "prepare", "state": {"terminated": {
        "exitCode": 137, "reason": "OOMKilled"}}}]), K.NOT_STARTED, -1300, "node_failure", "transient", "memory"),
]  # fmt: skip


def check(found: Any, row: tuple[Any, ...], events: Any = (), asked: Asked | None = None, gone: bool = False) -> None:
    end = pod_end.of_pod(found, asked or Asked(), events, gone=gone)
    assert end
    report = task_ends.of_gone(Launch(TASK, "/nonexistent", 0, 0, 0), pod_end.gone(end, TASK, 0), "n1",
                               stopping=False, killed=False)  # fmt: skip
    diagnosis: dict[str, Any] = dict(report.diagnosis or {})
    kind, code, cause, behaviour, words = row
    assert (end.reason, report.exit_code) == (kind, code), report
    assert (diagnosis.get("cause", ""), diagnosis.get("behavior", "")) == (cause, behaviour)
    assert words in report.message
    assert "  " not in report.message
    assert report.exit_code != 0


@pytest.mark.parametrize("name", ON_1_20)
def test_pods_of_a_real_cluster_of_1_20(name: str) -> None:
    check(REAL[name]["pod"], ON_1_20[name], REAL[name]["events"])


@pytest.mark.parametrize("row", ELSEWHERE, ids=lambda row: f"{row[1].value}{row[2]}-{row[5][:12]}")
def test_pods_of_other_clusters(row: tuple[Any, ...]) -> None:
    check(row[0], row[1:])


def test_every_real_pod_is_in_a_table() -> None:
    from tests.engines.kubernetes.pods.test_waiting import ON_1_20 as WAITING

    assert ON_1_20.keys() | WAITING.keys() == REAL.keys() - {"job"}


@pytest.mark.parametrize("name", ["nfs", "big", "no-host", "non-root"])
def test_a_pod_that_waits_has_not_ended(name: str) -> None:
    assert pod_end.of_pod(REAL[name]["pod"], Asked(), REAL[name]["events"]) is None


def test_a_pod_on_a_lost_node_has_not_ended_until_it_is_removed() -> None:
    stuck = disrupted(deleted(pod()), "DeletionByTaintManager")
    assert pod_end.of_pod(stuck, Asked()) is None
    check(stuck, (K.NODE_LOST, -1001, "node_failure", "transient", "taint"), gone=True)
    on_1_20 = deleted(pod())
    evicted = [event("TaintManagerEviction", "Marking for deletion Pod team/p")]
    check(on_1_20, (K.NODE_LOST, -1001, "node_failure", "transient", "taint"), evicted, gone=True)
    spared = [event("TaintManagerEviction", "Cancelling deletion of Pod team/p")]
    check(on_1_20, (K.DELETED, -101, "removed_outside", "transient", "kubectl delete"), spared, gone=True)


def test_a_pod_that_was_removed_by_force_may_still_run() -> None:
    asked = Asked(deleted=True, forced=True, waited_sec=600)
    row = (K.NODE_LOST, -1001, "node_failure", "transient", "may still run")
    check(deleted(pod()), row, asked=asked, gone=True)


@pytest.mark.parametrize("code", [0, 143])
def test_what_kedge_deleted_ended_by_itself(code: int) -> None:
    end = pod_end.of_pod(deleted(ended(code)), Asked(deleted=True))
    assert end
    assert (end.reason, end.code) == (K.ENDED, -15 if code else 0)
    assert pod_end.of_pod(deleted(pod()), Asked(deleted=True), gone=True) == pod_end.PodEnd(K.ENDED)


def test_what_happens_to_a_pod_after_its_command_ended_does_not_matter() -> None:
    later = "2026-11-23T12:00:00Z"
    for found in (deleted(ended(0), later, 0), disrupted(ended(0), "EvictionByEvictionAPI", later)):
        end = pod_end.of_pod(found, Asked())
        assert end
        assert (end.reason, end.code) == (K.ENDED, 0)


def test_a_pod_that_vanished_was_deleted() -> None:
    check(pod(), (K.DELETED, -101, "removed_outside", "transient", "kubectl delete"), gone=True)


def test_a_task_without_its_agent_has_to_end_but_not_while_it_is_deleted() -> None:
    agent = {"name": "agent", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    app = {"name": "app", "state": {"running": {"startedAt": BEGAN}}}
    found = pod(containerStatuses=[app, agent])
    check(found, (K.NOT_STARTED, 1, "remote_worker_lost", "unknown", "OOMKilled, exit code 137"))
    assert pod_end.of_pod(deleted(found), Asked()) is None


def test_events_are_asked_for_where_they_can_tell_more() -> None:
    assert pod_end.needs_events(REAL["low"]["pod"], Asked())
    assert not pod_end.needs_events(REAL["low"]["pod"], Asked(deleted=True))
    assert not pod_end.needs_events(disrupted(DELETED_0, "PreemptionByScheduler"), Asked())
    assert not pod_end.needs_events(pod(), Asked())
