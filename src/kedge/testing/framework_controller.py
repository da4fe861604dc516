"""Runs the Frameworks of a namespace as FrameworkController does, as far as tests need it: it makes ConfigMaps and pods
with the names, labels, annotations and variables of the real one, writes statuses, deletes pods that have ended, tries
again, and completes a Framework by the policies of its roles or when it is to be stopped.

    controller = FrameworkController(api)     # anything with these calls, such as kedge's client of Kubernetes
    controller.step()                         # or run(), in a thread, until close()
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from kedge.errors import CannotRun
from kedge.testing import framework_status as statuses
from kedge.testing.framework_status import Status

_STEP_SEC = 0.3
_API = "frameworkcontroller.microsoft.com/v1"
_INSTANCE = "FC_TASK_ATTEMPT_INSTANCE_UID"


class ObjectApi(Protocol):
    """The calls that are needed."""

    def list(self, kind: str) -> tuple[list[dict[str, Any]], str]: ...

    def get(self, kind: str, name: str) -> dict[str, Any] | None: ...

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any]: ...

    def patch(self, kind: str, name: str, changes: Mapping[str, Any]) -> dict[str, Any]: ...

    def delete(self, kind: str, name: str, *, uid: str | None = None) -> bool: ...


class FrameworkController:
    """`compress`: statuses are written in compressed form."""

    def __init__(self, api: ObjectApi, *, compress: bool = False) -> None:
        self._api, self._compress = api, compress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="framework-controller", daemon=True)

    def run(self) -> None:
        """Do what is to be done until `close`, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def step(self) -> None:
        """Look at each Framework once."""
        for framework in self._api.list("Framework")[0]:
            if "deletionTimestamp" not in framework["metadata"]:
                self._sync(framework)

    def _run(self) -> None:
        while not self._over.wait(_STEP_SEC):
            with suppress(CannotRun):  # the server does not answer, or an object has gone meanwhile
                self.step()

    def _sync(self, framework: dict[str, Any]) -> None:
        spec, name = framework["spec"], framework["metadata"]["name"]
        status = framework.get("status")
        status = statuses.unpacked(status) if status else statuses.of_framework(spec)
        before = repr(status)
        if status["state"] != statuses.COMPLETED and spec["executionType"] != "Create":
            _OneFramework(self._api, framework, status).advance()
        if repr(status) != before or not framework.get("status"):
            written = statuses.packed(status) if self._compress else status
            self._api.patch("Framework", name, {"status": written})


class _OneFramework:
    """One look at a Framework, whose status is changed in place."""

    def __init__(self, api: ObjectApi, framework: dict[str, Any], status: Status) -> None:
        self._api, self._framework, self._status = api, framework, status
        self._spec, self._name = framework["spec"], framework["metadata"]["name"]
        self._map = f"{self._name}-attempt"

    def advance(self) -> None:
        status = self._status
        if self._spec["executionType"] == "Stop":
            statuses.complete(status, statuses.STOPPED, "User has requested to stop the Framework")
        if status["state"] == statuses.CREATION:
            self._make_map()
        for role, task in statuses.tasks(status, self._spec):
            self._task(role, task)
        if statuses.code_of(status) is None and (end := statuses.triggered(self._spec, self._roles)):
            statuses.complete(status, *end)
        if statuses.code_of(status) is not None:
            self._end()

    @property
    def _roles(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._status["attemptStatus"]["taskRoleStatuses"]
        return found

    def _make_map(self) -> None:
        if statuses.code_of(self._status) is not None:
            return
        head = {"name": self._map, "ownerReferences": [_owner(_API, "Framework", self._framework["metadata"])]}
        made = self._api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": head})
        uid, attempt = made["metadata"]["uid"], self._status["attemptStatus"]
        attempt |= {"configMapName": self._map, "configMapUID": uid, "instanceUID": f"{attempt['id']}_{uid}"}
        statuses.move(self._status, statuses.PREPARING)

    def _task(self, role: dict[str, Any], task: Status) -> None:
        if task["state"] == statuses.COMPLETED:
            return
        if statuses.code_of(self._status) is not None:
            statuses.complete(task, statuses.ATTEMPT_OVER, "Stop to complete current FrameworkAttempt")
        attempt = task["attemptStatus"]
        if task["state"] == statuses.ATTEMPT_COMPLETED:
            self._after(role, task)
        elif attempt.get("podUID") is None:
            if attempt.get("completionStatus") is None:
                self._make_pod(role, task)
            else:
                statuses.move(task, statuses.ATTEMPT_COMPLETED)
        else:
            self._look(task)

    def _look(self, task: Status) -> None:
        """Take over what the pod of a task says, and delete it when it has ended."""
        attempt = task["attemptStatus"]
        pod = self._api.get("Pod", attempt["podName"])
        if pod is None or pod["metadata"]["uid"] != attempt["podUID"]:
            statuses.complete(task, statuses.POD_DELETED, "Pod was deleted by others")
            statuses.move(task, statuses.ATTEMPT_COMPLETED)
            return
        status = pod.get("status", {})
        attempt |= {"podIP": status.get("podIP"), "podHostIP": status.get("hostIP"),
                    "podNodeName": pod["spec"].get("nodeName")}  # fmt: skip
        if end := statuses.pod_end(pod):
            if attempt.get("runTime") is None and "terminated" in _state(pod, "app"):
                statuses.move(task, statuses.RUNNING)
            statuses.complete(task, *end)
        elif "deletionTimestamp" in pod["metadata"]:
            statuses.complete(task, statuses.POD_DELETED, "Pod is being deleted by others")
        if attempt.get("completionStatus") is not None:
            if "deletionTimestamp" not in pod["metadata"]:
                self._api.delete("Pod", attempt["podName"], uid=attempt["podUID"])
            statuses.move(task, statuses.DELETING)
        elif status.get("phase") == "Running":
            statuses.move(task, statuses.RUNNING)
            statuses.move(self._status, statuses.RUNNING)
        else:
            statuses.move(task, statuses.PREPARING)

    def _after(self, role: dict[str, Any], task: Status) -> None:
        """Try a task again whose attempt has ended, or complete it."""
        counts = task["retryPolicyStatus"]
        if counts.get("retryDelaySec") is not None:
            begun = statuses.of_task(task["index"], counts["totalRetriedCount"] + 1)
            begun["retryPolicyStatus"]["accountableRetriedCount"] = counts["accountableRetriedCount"]
            task |= begun
        elif statuses.code_of(self._status) is None and statuses.retries(role["task"]["retryPolicy"], task):
            counts["retryDelaySec"] = 0
        else:
            statuses.move(task, statuses.COMPLETED)

    def _end(self) -> None:
        """End an attempt of the job: when all pods are gone, it is tried again or completed."""
        status = self._status
        if any(task["state"] != statuses.COMPLETED for _, task in statuses.tasks(status, self._spec)):
            statuses.move(status, statuses.DELETING)
            return
        self._api.delete("ConfigMap", self._map)
        statuses.move(status, statuses.ATTEMPT_COMPLETED)
        if statuses.retries(self._spec["retryPolicy"], status):
            counts = status["retryPolicyStatus"]
            begun = statuses.of_framework(self._spec, counts["totalRetriedCount"] + 1)
            begun["retryPolicyStatus"]["accountableRetriedCount"] = counts["accountableRetriedCount"]
            status |= begun
        else:
            statuses.move(status, statuses.COMPLETED)

    def _make_pod(self, role: dict[str, Any], task: Status) -> None:
        name, attempt = f"{self._name}-{role['name']}-{task['index']}", task["attemptStatus"]
        known = self._known(role, task, name)
        template = statuses.filled(role["task"]["pod"], lambda text: _placed(text, known))
        head, spec = template["metadata"], template["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            container["env"] = [*_variables(known), *container.get("env", ())]
            container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
        labels = {key: known[key] for key in ("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX")}
        owner = _owner("v1", "ConfigMap", {"name": self._map, "uid": known["FC_CONFIGMAP_UID"]})
        own = {
            "name": name, "ownerReferences": [owner], "labels": {**head.get("labels", {}), **labels},
            "annotations": {**head.get("annotations", {}), **known},
        }  # fmt: skip
        pod = self._api.create({"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec})
        uid = pod["metadata"]["uid"]
        attempt |= {"podName": name, "podUID": uid, "instanceUID": f"{attempt['id']}_{uid}"}
        statuses.move(task, statuses.PREPARING)

    def _known(self, role: dict[str, Any], task: Status, pod: str) -> dict[str, str]:
        """The annotations of a pod, which are variables of its containers as well."""
        head, attempt = self._framework["metadata"], self._status["attemptStatus"]
        return {
            "FC_FRAMEWORK_NAMESPACE": head.get("namespace", ""), "FC_FRAMEWORK_NAME": self._name,
            "FC_TASKROLE_NAME": role["name"], "FC_TASK_INDEX": str(task["index"]), "FC_CONFIGMAP_NAME": self._map,
            "FC_POD_NAME": pod, "FC_FRAMEWORK_UID": head["uid"], "FC_FRAMEWORK_ATTEMPT_ID": str(attempt["id"]),
            "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": attempt["instanceUID"], "FC_CONFIGMAP_UID": attempt["configMapUID"],
            "FC_TASK_ATTEMPT_ID": str(task["attemptStatus"]["id"]),
        }  # fmt: skip


def _variables(known: Mapping[str, str]) -> list[dict[str, Any]]:
    plain = [{"name": name, "value": value} for name, value in known.items()]
    uid = {"name": "FC_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    return [*plain, uid, {"name": _INSTANCE, "value": f"{known['FC_TASK_ATTEMPT_ID']}_$(FC_POD_UID)"}]


def _placed(text: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def _state(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    each = pod.get("status", {}).get("containerStatuses") or ()
    return next((status.get("state", {}) for status in each if status["name"] == name), {})


def _owner(api: str, kind: str, head: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api, "kind": kind, "name": head["name"], "uid": head["uid"], "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
