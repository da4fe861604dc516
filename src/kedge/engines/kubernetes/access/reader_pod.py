"""A short-lived pod that reads the run folder on its volume when the driver has ended. It is made like the driver."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kedge.engines.kubernetes.access import submitted
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.objects import labels, pod_paths
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
    return job is not None and "persistentVolumeClaim" in _run_volume(job["spec"]["template"]["spec"])


@contextmanager
def started(found: SubmittedRun, job: dict[str, Any], anchor: dict[str, Any]) -> Iterator[str]:
    """A context with such a pod, by its name. CannotRun: it does not start."""
    made = found.api.create(pod(found, job, anchor, os.urandom(4).hex()))
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    try:
        end = time.monotonic() + _START_SEC
        while not submitted.is_running(now := found.api.get("Pod", name) or {}):
            if time.monotonic() > end or now.get("status", {}).get("phase") in ("Failed", "Succeeded"):
                raise CannotRun(f"the pod {name}, which reads the volume of {found.run.id}, does not start")
            time.sleep(_LOOK_SEC)
        yield name
    finally:
        with suppress(CannotRun):
            found.api.delete("Pod", name, grace_sec=1, uid=uid)


def pod(found: SubmittedRun, job: dict[str, Any], anchor: dict[str, Any], suffix: str) -> dict[str, Any]:
    """The pod: image, rights and volume are those of the driver's Job."""
    texts = anchor["metadata"].get("annotations") or {}
    said = (str(texts.get(key, "")) for key in (labels.RUN_ID, labels.USER, labels.JOB))
    owner = ObjectOwner(found.names.name, anchor["metadata"]["uid"], *said)
    spec = job["spec"]["template"]["spec"]
    driver = next(each for each in spec["containers"] if each["name"] == CONTAINER)
    mounts = [each for each in driver.get("volumeMounts", ()) if each["name"] == "run"]
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
            "volumes": [_run_volume(spec)],
        },
    }


def _run_volume(spec: dict[str, Any]) -> dict[str, Any]:
    return next((volume for volume in spec.get("volumes") or () if volume.get("name") == "run"), {})
