"""A small Kueue for the server: it holds pods in queues, admits them by quota, and takes their places back.

The quota of a queue is a number of pods. As the real one, it gates pods that name a queue when they are created, knows
a group of pods as one Workload, keeps deleted pods by a finalizer, and never creates a pod.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from kedge.testing.kubernetes_api import deletion
from kedge.testing.kubernetes_api.deletion import DeleteOptions
from kedge.testing.kubernetes_api.refusals import Json
from kedge.testing.kubernetes_api.resources import POD, ResourceKind
from kedge.testing.kubernetes_api.server import FakeKubernetes
from kedge.testing.kubernetes_api.store import StoreChange, timestamp

GROUP = "kueue.x-k8s.io"
GATE = f"{GROUP}/admission"
MANAGED = f"{GROUP}/managed"  # a label and a finalizer
QUEUE_NAME, GROUP_NAME = f"{GROUP}/queue-name", f"{GROUP}/pod-group-name"
TOTAL, RETRIABLE, JOB_UID = f"{GROUP}/pod-group-total-count", f"{GROUP}/retriable-in-group", f"{GROUP}/job-uid"
_IN_USE = f"{GROUP}/resource-in-use"
_OVER = ("Succeeded", "Failed")


class FakeKueue:
    """It works on the objects of the server's namespace. `manages`: its integration of pods is turned on."""

    def __init__(self, fake: FakeKubernetes, version: str = "v1beta1") -> None:
        self.manages = True
        self._fake, self._store = fake, fake.store
        self._queue = ResourceKind("LocalQueue", "localqueues", GROUP, version, has_status=True)
        self._workload = ResourceKind("Workload", "workloads", GROUP, version, has_status=True)
        self._quota: dict[str, int] = {}
        self._born: dict[str, int] = {}  # Workloads in their order, by uid
        self._works = self._again = False
        for kind in (self._queue, self._workload):
            fake.add_kind(kind)
        fake.webhooks.append(self._admission)
        self._store.after.append(self._changed)

    def add_queue(self, name: str, pods: int) -> None:
        """Make a LocalQueue with room for so many pods."""
        self._store.add(self._queue, {"metadata": {"name": name, "namespace": self._fake.namespace}, "spec": {}})
        self.set_quota(name, pods)

    def set_quota(self, name: str, pods: int) -> None:
        """Change the room of a queue. Nothing that was admitted is taken back."""
        self._quota[name] = pods
        self._settle()

    def workloads(self) -> list[Json]:
        """All Workloads, in order of their names."""
        return self._fake.listed("Workload")

    def used(self, queue: str) -> int:
        """How many pods have quota in a queue."""
        return sum(_count(each) for each in self.workloads() if each["spec"]["queueName"] == queue and _holds(each))

    def evict(self, name: str, message: str, reason: str = "Preempted") -> None:
        """Take back what a Workload has: its pods are deleted."""
        with self._store.lock:
            workload = self._store.get(self._workload, self._fake.namespace, name)
            self._say(workload, {"Evicted": ("True", reason, message), "QuotaReserved": ("False", "Pending", message)})
            self._stop(self._pods_of(name), "WorkloadEvicted", message)

    # When a pod is created.

    def _admission(self, kind: ResourceKind, obj: Json) -> Json:
        labels = obj["metadata"].get("labels") or {}
        if kind != POD or not self.manages or QUEUE_NAME not in labels:
            return obj
        gates = [*obj["spec"].get("schedulingGates", ()), {"name": GATE}]
        finalizers = [*obj["metadata"].get("finalizers", ()), MANAGED]
        metadata = {**obj["metadata"], "labels": {**labels, MANAGED: "true"}, "finalizers": finalizers}
        return {**obj, "metadata": metadata, "spec": {**obj["spec"], "schedulingGates": gates}}

    # When anything has changed.

    def _changed(self, change: StoreChange) -> None:
        if change.kind in (POD, self._workload):
            self._settle()

    def _settle(self) -> None:
        self._again = True
        if self._works:  # this change is its own
            return
        with self._store.lock:
            self._works = True
            try:
                while self._again:
                    self._again = False
                    self._step()
            finally:
                self._works = False

    def _step(self) -> None:
        groups: dict[str, list[Json]] = {}
        for pod in self._managed():
            groups.setdefault(_workload_name(pod), []).append(pod)
        for workload in self.workloads():
            self._follow(workload, groups.get(workload["metadata"]["name"], []))
        for name, pods in groups.items():
            if self._store.find(self._workload, self._fake.namespace, name) is None:
                self._begin(name, pods)
        for workload in sorted(self.workloads(), key=lambda each: self._born[each["metadata"]["uid"]]):
            self._admit(workload)

    def _managed(self) -> Iterator[Json]:
        yield from (pod for pod in self._fake.listed("Pod") if MANAGED in pod["metadata"].get("labels", {}))

    def _pods_of(self, workload: str) -> list[Json]:
        return [pod for pod in self._managed() if _workload_name(pod) == workload]

    def _begin(self, name: str, pods: list[Json]) -> None:
        """Make the Workload of pods, once all of a group are there."""
        can_run = [pod for pod in pods if _can_run(pod)]
        self._release(pod for pod in pods if not _can_run(pod))
        metadata = pods[0]["metadata"]
        grouped = GROUP_NAME in metadata["labels"]
        total = int(metadata["annotations"][TOTAL]) if grouped else 1
        if len(can_run) < total:
            return
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
                  for pod in can_run]  # fmt: skip
        made = self._store.add(self._workload, {
            "metadata": {
                "name": name, "namespace": self._fake.namespace, "ownerReferences": owners, "finalizers": [_IN_USE],
                "labels": {} if grouped else {JOB_UID: metadata["uid"]},
            },
            "spec": {"queueName": metadata["labels"][QUEUE_NAME], "podSets": [{"name": "main", "count": total}]},
            "status": {"conditions": []},
        })  # fmt: skip
        self._born[made["metadata"]["uid"]] = len(self._born)

    def _follow(self, workload: Json, pods: list[Json]) -> None:
        """Let a Workload end with its pods, or these with it."""
        if "deletionTimestamp" in workload["metadata"] or not pods:
            self._stop(pods, "WorkloadDeleted", "The workload is deleted")
            self._release(self._pods_of(workload["metadata"]["name"]))
            self._drop(workload)
        elif not _is(workload, "Finished"):
            alive = [pod for pod in pods if pod["status"]["phase"] not in _OVER]
            succeeded = sum(pod["status"]["phase"] == "Succeeded" for pod in pods)
            grouped = GROUP_NAME in pods[0]["metadata"]["labels"]
            final = not grouped or any(pod["metadata"]["annotations"].get(RETRIABLE) == "false" for pod in pods)
            if succeeded == _count(workload) or (final and not alive):
                said = f"Pods succeeded: {succeeded}/{_count(workload)}."
                self._say(workload, {"Finished": ("True", "JobFinished", said)})
                self._release(pods)
            elif not grouped:
                self._release(pod for pod in pods if "deletionTimestamp" in pod["metadata"])

    def _drop(self, workload: Json) -> None:
        metadata = {**workload["metadata"], "finalizers": []}
        self._store.put(self._workload, {**workload, "metadata": metadata})
        self._store.remove(self._workload, self._fake.namespace, workload["metadata"]["name"])

    def _admit(self, workload: Json) -> None:
        """Give a Workload its quota, and let its pods go to the scheduler; or say why not."""
        if _is(workload, "Finished") or "deletionTimestamp" in workload["metadata"]:
            return
        if _is(workload, "Evicted") or _is(workload, "QuotaReserved"):
            if _is(workload, "QuotaReserved"):
                self._ungate(workload["metadata"]["name"])
            return
        queue = workload["spec"]["queueName"]
        if queue not in self._quota:
            self._say(workload, {"QuotaReserved": ("False", "Inadmissible", f"LocalQueue {queue} doesn't exist")})
            return
        missing = self.used(queue) + _count(workload) - self._quota[queue]
        if missing > 0:
            said = (
                "couldn't assign flavors to pod set main: insufficient unused quota for pods in flavor default, "
                f"{missing} more needed"
            )
            self._say(workload, {"QuotaReserved": ("False", "Pending", said)})
            return
        said = f"Quota reserved in ClusterQueue {queue}"
        self._say(workload, {"QuotaReserved": ("True", "QuotaReserved", said), "Admitted": ("True", "Admitted", said)})

    def _ungate(self, workload: str) -> None:
        for pod in self._pods_of(workload):
            gates = [gate for gate in pod["spec"].get("schedulingGates", ()) if gate["name"] != GATE]
            self._store.put(POD, {**pod, "spec": {**pod["spec"], "schedulingGates": gates}})

    def _stop(self, pods: Iterable[Json], reason: str, message: str) -> None:
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in _OVER:
                continue
            name = pod["metadata"]["name"]
            self._fake.nodes.condition(name, "TerminationTarget", "True", reason, message)
            deletion.delete(self._store, POD, self._fake.namespace, name, DeleteOptions())

    def _release(self, pods: Iterable[Json]) -> None:
        """Let deleted pods go."""
        for pod in [*pods]:
            left = [name for name in pod["metadata"].get("finalizers", ()) if name != MANAGED]
            now = self._store.put(POD, {**pod, "metadata": {**pod["metadata"], "finalizers": left}})
            deletion.settle(self._store, POD, now)

    def _say(self, workload: Json, said: dict[str, tuple[str, str, str]]) -> None:
        conditions = {each["type"]: each for each in workload["status"]["conditions"]}
        for kind, (status, reason, message) in said.items():
            new = {"type": kind, "status": status, "reason": reason, "message": message}
            if new.items() <= conditions.get(kind, {}).items():
                continue
            conditions[kind] = {**new, "lastTransitionTime": timestamp()}
        self._store.put(self._workload, {**workload, "status": {"conditions": list(conditions.values())}})


def _workload_name(pod: Json) -> str:
    metadata = pod["metadata"]
    group: str = metadata["labels"].get(GROUP_NAME, "")
    return group or f"pod-{metadata['name']}-{hashlib.sha256(metadata['uid'].encode()).hexdigest()[:5]}"


def _can_run(pod: Json) -> bool:
    deleted_early = "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
    return not deleted_early and pod["status"]["phase"] != "Failed"


def _count(workload: Json) -> int:
    return sum(each["count"] for each in workload["spec"]["podSets"])


def _is(workload: Json, condition: str) -> bool:
    found = (each for each in workload["status"]["conditions"] if each["type"] == condition)
    return any(each["status"] == "True" for each in found)


def _holds(workload: Json) -> bool:
    """Whether it has quota."""
    return _is(workload, "QuotaReserved") and not _is(workload, "Finished")
