"""The scheduler and the kubelets of the server: they write what a test says, in the shapes of real ones."""

from __future__ import annotations

from typing import Any

from kedge.testing.kubernetes_api.refusals import Json
from kedge.testing.kubernetes_api.resources import EVENT, JOB, POD
from kedge.testing.kubernetes_api.store import LogTexts, ObjectStore, StoreChange, timestamp

_OK = ("Initialized", "Ready", "ContainersReady", "PodScheduled")


class ScriptedNodes:
    """All methods take a pod's name in the server's namespace.

    With `automatic`, pods are scheduled and run as soon as they are created, and go as soon as they are deleted, as on
    idle nodes with tasks that obey; Jobs get their pod."""

    def __init__(self, store: ObjectStore, namespace: str, logs: LogTexts) -> None:
        self.automatic = False
        self._store, self._namespace, self._logs = store, namespace, logs
        self._addresses = self._events = 0

    def changed(self, change: StoreChange) -> None:
        """What the cluster does by itself, if it is automatic."""
        name = change.object["metadata"]["name"]
        if not self.automatic or change.object["metadata"].get("namespace") != self._namespace:
            return
        if change.kind == JOB and change.type == "ADDED":
            self.start_job(name)
        elif change.kind == POD and change.type == "ADDED" and not change.object["spec"].get("schedulingGates"):
            self.run(name)
        elif change.kind == POD and change.type == "MODIFIED" and "deletionTimestamp" in change.object["metadata"]:
            self.let_go(name)

    def start_job(self, name: str) -> str:
        """Make the next pod of a Job; its name."""
        job = self._store.get(JOB, self._namespace, name)
        template = job["spec"]["template"]
        owner = {
            "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        self._events += 1
        labels = {"job-name": name, **template.get("metadata", {}).get("labels", {})}
        meta = {
            **template.get("metadata", {}), "name": f"{name}-{self._events:05d}", "namespace": self._namespace,
            "labels": labels, "ownerReferences": [owner],
        }  # fmt: skip
        pod = {"metadata": meta, "spec": template["spec"], "status": {"phase": "Pending"}}
        return str(self._store.add(POD, pod)["metadata"]["name"])

    def schedule(self, name: str, node: str = "node-1") -> None:
        """Give the pod a node."""
        with self._store.lock:
            pod = self._pod(name)
            pod = {**pod, "spec": {**pod["spec"], "nodeName": node}}
            self._store.put(POD, _with_conditions(pod, [_condition("PodScheduled", "True")]))

    def unschedulable(self, name: str, message: str) -> None:
        """The scheduler finds no node."""
        self.condition(name, "PodScheduled", "False", "Unschedulable", message)

    def run(self, name: str, node: str = "node-1") -> None:
        """All containers run; the pod has an address."""
        with self._store.lock:
            pod = self._pod(name)
            if not pod["spec"].get("nodeName"):
                self.schedule(name, node)
                pod = self._pod(name)
            self._addresses += 1
            address = f"10.244.{self._addresses // 250}.{self._addresses % 250 + 2}"
            status = {
                **pod["status"], "phase": "Running", "startTime": timestamp(), "podIP": address, "hostIP": "127.0.0.1",
                "podIPs": [{"ip": address}],
                "initContainerStatuses": [_status(c, _ended(0)) for c in pod["spec"].get("initContainers", ())],
                "containerStatuses": [_status(c, {"running": {"startedAt": timestamp()}}, True)
                                      for c in pod["spec"]["containers"]],
            }  # fmt: skip
            conditions = [_condition(kind, "True") for kind in _OK]
            self._store.put(POD, _with_conditions({**pod, "status": status}, conditions))

    def wait(self, name: str, reason: str, message: str = "", container: str = "app") -> None:
        """A container cannot start: ErrImagePull, CreateContainerConfigError and so on."""
        self.container(name, container, {"waiting": {"reason": reason} | ({"message": message} if message else {})})

    def end_container(self, name: str, exit_code: int, reason: str = "", container: str = "app", **more: Any) -> None:
        """One container ends, the others run on. `more` is what the kubelet says besides."""
        self.container(name, container, _ended(exit_code, reason, **more))

    def container(self, name: str, container: str, state: Json) -> None:
        """Set the state of one container; the others keep theirs."""
        with self._store.lock:
            pod = self._pod(name)
            status = dict(pod["status"])
            for field, specs in (("initContainerStatuses", "initContainers"), ("containerStatuses", "containers")):
                old = {s["name"]: s for s in status.get(field, ())}
                waiting = {"waiting": {"reason": "PodInitializing"}}
                new = {c["name"]: old.get(c["name"]) or _status(c, waiting) for c in pod["spec"].get(specs, ())}
                if container in new:
                    new[container] = {**new[container], "state": state, "ready": "running" in state}
                if new:
                    status[field] = list(new.values())
            self._store.put(POD, {**pod, "status": status})

    def finish(self, name: str, exit_code: int = 0, reason: str = "", container: str = "app", **status: Any) -> None:
        """The pod has ended: this container with that code, the others with 0. `status` is what the pod's says."""
        with self._store.lock:
            for spec in self._pod(name)["spec"]["containers"]:
                mine = spec["name"] == container
                self.end_container(name, exit_code if mine else 0, reason if mine else "", spec["name"])
            phase = "Failed" if exit_code else "Succeeded"
            self.set_status(name, **({"phase": phase} | status))

    def evict(self, name: str, message: str) -> None:
        """The kubelet is short of something: the pod has failed, its containers are gone."""
        self.set_status(name, phase="Failed", reason="Evicted", message=message, containerStatuses=[])

    def set_status(self, name: str, **status: Any) -> None:
        """Replace fields of the pod's status."""
        with self._store.lock:
            pod = self._pod(name)
            self._store.put(POD, {**pod, "status": {**pod["status"], **status}})

    def condition(self, name: str, kind: str, status: str, reason: str = "", message: str = "") -> None:
        """Set a condition of the pod, DisruptionTarget for one."""
        with self._store.lock:
            new = _with_conditions(self._pod(name), [_condition(kind, status, reason, message)])
            self._store.put(POD, new)

    def let_go(self, name: str, exit_code: int = 0) -> None:
        """The kubelet has ended a pod that was deleted: its object goes, unless a finalizer keeps it."""
        with self._store.lock:
            pod = self._store.find(POD, self._namespace, name)
            if pod and pod["metadata"].get("finalizers"):
                status = {**pod["status"], "phase": "Failed" if exit_code else "Succeeded"}
                metadata = {**pod["metadata"], "deletionGracePeriodSeconds": 0}
                self._store.put(POD, {**pod, "metadata": metadata, "status": status})
            elif pod:
                self._store.remove(POD, self._namespace, name)

    def event(self, name: str, reason: str, message: str, source: str = "kubelet", kind: str = "Warning") -> None:
        """An Event about the pod; `kind` may be Normal."""
        self.event_about(self._pod(name), reason, message, source, kind)

    def event_about(self, obj: Json, reason: str, message: str, source: str, kind: str = "Warning") -> None:
        """An Event about any object."""
        self._events += 1
        meta = obj["metadata"]
        about = {
            "kind": obj["kind"], "apiVersion": obj["apiVersion"], "name": meta["name"], "uid": meta["uid"],
            "namespace": meta.get("namespace", ""),
        }  # fmt: skip
        now = timestamp()
        event = {
            "metadata": {"name": f"{meta['name']}.{self._events:016x}", "namespace": self._namespace},
            "involvedObject": about, "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now, "source": {"component": source},
        }  # fmt: skip
        self._store.add(EVENT, event)

    def log(self, name: str, text: str, container: str = "app") -> None:
        """What `kubectl logs` reads."""
        self._logs[(self._namespace, name, container)] = text

    def _pod(self, name: str) -> Json:
        return self._store.get(POD, self._namespace, name)


def _status(spec: Json, state: Json, ready: bool = False) -> Json:
    return {
        "name": spec["name"], "image": spec.get("image", ""), "imageID": "", "restartCount": 0, "lastState": {},
        "state": state, "ready": ready, "started": "running" in state,
    }  # fmt: skip


def _ended(exit_code: int, reason: str = "", **more: Any) -> Json:
    reason = reason or ("Error" if exit_code else "Completed")
    now = timestamp()
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": now, "finishedAt": now, **more}}


def _condition(kind: str, status: str, reason: str = "", message: str = "") -> Json:
    said = {name: value for name, value in (("reason", reason), ("message", message)) if value}
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": timestamp(), **said}


def _with_conditions(pod: Json, conditions: list[Json]) -> Json:
    new = {c["type"]: c for c in (*pod["status"].get("conditions", ()), *conditions)}
    return {**pod, "status": {**pod["status"], "conditions": list(new.values())}}
