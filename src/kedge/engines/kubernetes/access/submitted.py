"""Where a run is: its namespace, and what kedge has created there (RUN/cluster/job.json)."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.errors import CannotRun
from kedge.runs.folder import Run

ENGINE = "kubernetes"
_connections: dict[tuple[str | None, ...], KubernetesApi] = {}
_lock = threading.Lock()


class SubmittedJob:
    """What RUN/cluster/job.json says. CannotRun: it is damaged. `uid` is that of the object that owns all others; empty
    until it has been created."""

    engine: ClassVar[str]

    def __init__(self, run: Run) -> None:
        self.run, self.facts = run, run.cluster.object(run.cluster.job)
        name = self.facts.get("name")
        if self.facts.get("engine") != self.engine or not isinstance(name, str) or not name:
            raise CannotRun(f"{run.cluster.job} is damaged, so it is not known where {run.id} is in the cluster")
        self.name = name
        self.uid = str(self.facts.get("uid") or "")

    @property
    def api(self) -> KubernetesApi:
        """A connection to its namespace, which all of this process share. CannotRun."""
        return connection(self.facts)

    @property
    def time(self) -> float:
        """When it was submitted, in seconds since 1970; 0 if that is not known."""
        value = self.facts.get("time")
        return float(value) if isinstance(value, int | float) else 0.0

    def owner(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object that owns all others; None: it has been deleted, perhaps by `kedge rm` on another machine."""
        found = self.api.get(kind, name)
        if found is None or (self.uid and found["metadata"].get("uid") != self.uid):
            return None
        return None if found["metadata"].get("deletionTimestamp") else found


class SubmittedRun(SubmittedJob):
    """A run that a driver of kedge controls."""

    engine = ENGINE

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.names = RunNames(self.name)

    def anchor(self) -> dict[str, Any] | None:
        """See `owner`."""
        return self.owner("ConfigMap", self.names.anchor)

    def driver(self) -> dict[str, Any] | None:
        """The pod of the driver: the one that runs, else the latest; None: there is none."""
        wanted = {labels.RUN: self.names.name, labels.COMPONENT: labels.DRIVER}
        pods, _ = self.api.list("Pod", wanted)
        return max(pods, key=lambda pod: (is_running(pod), pod["metadata"].get("creationTimestamp", "")), default=None)

    def job(self) -> dict[str, Any] | None:
        """The Job of the driver; None: it has been deleted."""
        return self.api.get("Job", self.names.driver)

    def events_of(self, thing: dict[str, Any] | None) -> list[dict[str, Any]]:
        """The events about an object, the latest last; none where this user may not list them."""
        try:
            return self.api.events_of(thing["metadata"]["uid"]) if thing else []
        except ApiError:
            return []


def connection(facts: dict[str, Any]) -> KubernetesApi:
    """A connection to the namespace that a job.json names, which all of this process share. CannotRun."""
    given = (_text(facts, "kubeconfig"), _text(facts, "context"), _text(facts, "namespace"))
    with _lock:
        if given not in _connections:
            _connections[given] = KubernetesApi.connect(*given)
        return _connections[given]


def close_connections() -> None:
    """Close what this process has kept open."""
    with _lock:
        for api in _connections.values():
            api.close()
        _connections.clear()


def is_running(pod: dict[str, Any]) -> bool:
    """Whether a program can be started in a pod now."""
    states = pod.get("status", {}).get("containerStatuses") or ()
    return pod.get("status", {}).get("phase") == "Running" and any("running" in s.get("state", {}) for s in states)


def _text(facts: dict[str, Any], key: str) -> str | None:
    value = facts.get(key)
    return value if isinstance(value, str) and value else None
