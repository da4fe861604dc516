"""Where pods may run, and who waits for whom: selectors, tolerations, priorities, queues."""

from __future__ import annotations

from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.light.types import Any, Mapping
from kedge.plan.model import Plan

QUEUE = "kueue.x-k8s.io/queue-name"
POD_GROUP = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
MANAGED = "kueue.x-k8s.io/managed"  # a label that Kueue gives to pods
JOB_UID = "kueue.x-k8s.io/job-uid"  # a label of the Workload of a single pod


def placing(options: KubernetesOptions) -> dict[str, Any]:
    """The keys of a task pod's spec that decide where it may run."""
    found: dict[str, Any] = {}
    if options.node_labels:
        found["nodeSelector"] = options.node_labels
    if options.tolerations:
        found["tolerations"] = [toleration(text) for text in options.tolerations]
    if options.priority_class:
        found["priorityClassName"] = options.priority_class
    return found


def toleration(text: str) -> dict[str, str]:
    """A toleration from `key[=value][:Effect]`; without a value, of every value."""
    rest, _, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    found = {"key": key, "operator": "Equal", "value": value} if equals else {"key": key, "operator": "Exists"}
    return found | ({"effect": effect} if effect else {})


def queue_labels(plan: Plan, name: str, job_attempt: int, options: KubernetesOptions) -> dict[str, str]:
    """The labels by which Kueue knows a task pod; none without a queue. The tasks of a gang are one group, another one
    in each attempt of the job."""
    if not options.queue:
        return {}
    group = {POD_GROUP: pod_group(name, job_attempt)} if plan.gang else {}
    return {QUEUE: options.queue, **group}


def pod_group(name: str, job_attempt: int) -> str:
    """The group of all pods of a job attempt, which Kueue admits together; also the name of its Workload."""
    return RunNames(name).tokens(job_attempt)


def gates(pod: Mapping[str, Any]) -> list[str]:
    """What keeps a pod from the scheduler."""
    return [str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


def queue_annotations(plan: Plan, options: KubernetesOptions) -> dict[str, str]:
    """The annotations that go with `queue_labels`. A task that has failed is not replaced in its group, so that Kueue
    takes back what a failed attempt had."""
    if not options.queue or not plan.gang:
        return {}
    return {GROUP_TOTAL: str(plan.task_count), RETRIABLE: "false"}


def service_texts() -> Mapping[str, str]:
    """Annotations for programs of clusters that would otherwise disturb a task."""
    return {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "kubectl.kubernetes.io/default-container": "app",
        "kubectl.kubernetes.io/default-logs-container": "app",
    }
