"""The queue (Kueue's LocalQueue) that a job waits in: which one it is, whether it is there, and whether it takes the
job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kedge.engines.base import Task
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.plan.model import Plan

KUEUE = "kueue.x-k8s.io"
MOST_SHAPES = 18  # of a Workload: its podSets
_QUEUE = "queue"
_SHAPE = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "priorityClassName",
    "runtimeClassName",
    "topologySpreadConstraints",
)


def of_plan(api: KubernetesApi, plan: Plan, options: KubernetesOptions) -> str | None:
    """The queue of a job: the one that is named, else the one of the namespace that has the name of its virtual
    cluster. A site that fixes `queue` has decided."""
    if options.queue or _QUEUE in options.fixed or KUEUE not in api.groups():
        return options.queue
    api.prefer_served(KUEUE)
    try:
        return plan.virtual_cluster if api.get("LocalQueue", plan.virtual_cluster) else None
    except ApiError as error:
        if error.status in (400, 403, 422):  # one may not look, or it cannot be the name of a queue
            return None
        raise


def check_shapes(plan: Plan, options: KubernetesOptions, place: PodPlace) -> None:
    """CannotRun: the roles of a gang are too different for one group of Kueue."""
    if not options.queue or not plan.gang:
        return
    shapes = {_shape(task_pod(plan, Task(role.name, 0), 0, 0, options, place)) for role in plan.roles}
    if len(shapes) > MOST_SHAPES:
        raise CannotRun(
            f"the roles of the job ask for {len(shapes)} different sets of resources, and Kueue admits at most "
            f"{MOST_SHAPES} together: let roles ask for the same, or let tasks wait each by itself with "
            "extras.gangAllocation: false"
        )


def _shape(pod: Mapping[str, Any]) -> str:
    """What Kueue tells pods apart by."""
    spec = pod["spec"]
    containers = [
        (each.get("resources"), each.get("ports")) for each in (*spec.get("initContainers", ()), *spec["containers"])
    ]
    return json.dumps([containers, *(spec.get(key) for key in _SHAPE)], sort_keys=True)


def missing(api: KubernetesApi, queue: str) -> Iterator[str]:
    """What is wrong with the name of a queue. ApiError."""
    if KUEUE not in api.groups():
        yield f"the cluster has no Kueue, so there is no queue {queue!r}: leave --queue out"
        return
    api.prefer_served(KUEUE)
    if api.get("LocalQueue", queue) is None:
        known = ", ".join(each["metadata"]["name"] for each in api.list("LocalQueue")[0])
        there = f"it has {known}" if known else "it has none, which an administrator makes"
        yield f"the namespace {api.namespace} has no queue {queue!r}: {there}"
