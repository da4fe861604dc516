"""A short-lived pod that reads the volumes of a run, and removes what the run has there. It is made like the driver,
but may do what tasks may: they own their files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kedge.engines.kubernetes.access import submitted
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.objects import driver_job, labels, pod_paths
from kedge.engines.kubernetes.objects.driver_job import CONTAINER
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.errors import CannotRun

_LONGEST_SEC = 900  # it ends by itself then, if whoever made it was killed
_START_SEC = 120.0
_LOOK_SEC = 0.3
_COMMAND = (f"{pod_paths.IMAGE_BUNDLE}/shell/busybox", "sleep", str(_LONGEST_SEC))
_OF_POD = ("securityContext", "imagePullSecrets", "tolerations", "nodeSelector", "priorityClassName")
_OF_CONTAINER = ("image", "imagePullPolicy", "securityContext")


def is_possible(job: dict[str, Any] | None) -> bool:
    """Whether the Job of a driver keeps its run folder on a volume that another pod can mount."""
    return job is not None and "persistentVolumeClaim" in volume(job, driver_job.RUN)


def volume(job: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A volume of the driver's pod; empty if it has none with this name."""
    volumes = job["spec"]["template"]["spec"].get("volumes") or ()
    return next((each for each in volumes if each.get("name") == name), {})


@contextmanager
def started(
    found: SubmittedRun, job: dict[str, Any], anchor: dict[str, Any], volumes: Sequence[str] = (driver_job.RUN,),
    user: int | None = None,
) -> Iterator[str]:  # fmt: skip
    """A context with a pod that has these volumes of the driver, by its name; with `user` it is this one. CannotRun: it
    does not start."""
    made = _created(found, job, anchor, volumes, user)
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    try:
        end = time.monotonic() + _START_SEC
        while not submitted.is_running(now := found.api.get("Pod", name) or {}):
            if time.monotonic() > end or now.get("status", {}).get("phase") in ("Failed", "Succeeded"):
                raise CannotRun(f"the pod {name}, which reads volumes of {found.run.id}, does not start")
            time.sleep(_LOOK_SEC)
        yield name
    finally:
        with suppress(CannotRun):
            found.api.delete("Pod", name, grace_sec=1, uid=uid)


def _created(
    found: SubmittedRun, job: dict[str, Any], anchor: dict[str, Any], volumes: Sequence[str], user: int | None
) -> dict[str, Any]:
    """The new pod. Where the namespace forbids root, its user is the driver's."""
    made = pod(found, job, anchor, os.urandom(4).hex(), volumes)
    if user is not None:
        made["spec"]["containers"][0]["securityContext"] |= {"runAsUser": user}
        return found.api.create(made)
    texts = job["metadata"].get("annotations") or {}
    if texts.get(labels.TASK_USERS) == labels.ANY_USER and tuple(volumes) != (driver_job.RUN,):
        with suppress(ApiError):
            return found.api.create(_as_root(made))
    return found.api.create(made)


def _as_root(made: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with the rights to read and remove files of every user, within the Pod Security standard *baseline*."""
    spec = made["spec"]
    context = {
        "runAsUser": 0, "runAsGroup": 0, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    container = {**spec["containers"][0], "securityContext": context}
    own = {key: value for key, value in spec.items() if key != "securityContext"}
    return {**made, "spec": {**own, "containers": [container]}}


def pod(
    found: SubmittedRun, job: dict[str, Any], anchor: dict[str, Any], suffix: str,
    volumes: Sequence[str] = (driver_job.RUN,),
) -> dict[str, Any]:  # fmt: skip
    """The pod: image, rights and volumes are those of the driver's Job."""
    texts = anchor["metadata"].get("annotations") or {}
    said = (str(texts.get(key, "")) for key in (labels.RUN_ID, labels.USER, labels.JOB))
    owner = ObjectOwner(found.names.name, anchor["metadata"]["uid"], *said)
    spec = job["spec"]["template"]["spec"]
    driver = next(each for each in spec["containers"] if each["name"] == CONTAINER)
    mounts = [each for each in driver.get("volumeMounts", ()) if each["name"] in volumes]
    container = {
        "name": CONTAINER,
        **{key: driver[key] for key in _OF_CONTAINER if key in driver},
        "command": list(_COMMAND),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": labels.metadata(owner, f"{found.names.name}-reader-{suffix}", labels.READER),
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "activeDeadlineSeconds": _LONGEST_SEC,
            "terminationGracePeriodSeconds": 1,
            **{key: spec[key] for key in _OF_POD if key in spec},
            "containers": [container],
            "volumes": [volume(job, name) for name in volumes],
        },
    }
