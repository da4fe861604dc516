"""What a driver knows of itself and of its run, once it has the Lease."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.in_driver.decision_log import DecisionLog
from kedge.engines.kubernetes.in_driver.lease import DriverLease
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.errors import CannotRun


class DriverPod(NamedTuple):
    """`pod` is the name of this pod, `ip` its address; `controller` is the random id of this process. `after_end` is
    what is done when the job's end and its report are there for its user, who need not wait for it."""

    api: KubernetesApi
    owner: ObjectOwner
    pod: str
    ip: str
    controller: str
    lease: DriverLease
    decisions: DecisionLog
    after_end: list[Callable[[], None]]

    @property
    def names(self) -> RunNames:
        """The names of the run's objects."""
        return RunNames(self.owner.name)


_driver: list[DriverPod] = []


def set_driver(driver: DriverPod) -> None:
    """This process is that driver."""
    _driver[:] = [driver]


def this_driver() -> DriverPod:
    """The driver that this process is. CannotRun: it is none."""
    if not _driver:
        raise CannotRun("this controller is not in a driver pod of Kubernetes: start the job with kedge run")
    return _driver[0]


def owner_of(anchor: Mapping[str, Any]) -> ObjectOwner:
    """The owner of a run's objects, from its anchor."""
    metadata = anchor["metadata"]
    said = metadata.get("annotations") or {}
    texts = (said.get(labels.RUN_ID, ""), said.get(labels.USER, ""), said.get(labels.JOB, ""))
    return ObjectOwner(metadata["name"], metadata["uid"], *texts)


def variable(name: str) -> str:
    """A variable that the pod of a driver has. CannotRun: it is not set."""
    if value := os.environ.get(name, ""):
        return value
    raise CannotRun(f"this is no driver pod: {name} is not set")
