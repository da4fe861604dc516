"""The kinds that the server knows, and what a path of a request means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kedge.testing.kubernetes_api.refusals import FakeRefusal


class ResourceKind(NamedTuple):
    """A kind of object. `has_status`: its status is written by a path of its own only."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    has_status: bool = False

    @property
    def api_version(self) -> str:
        """As objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


POD = ResourceKind("Pod", "pods", has_status=True)
JOB = ResourceKind("Job", "jobs", "batch", has_status=True)
EVENT = ResourceKind("Event", "events")
NODE = ResourceKind("Node", "nodes", namespaced=False, has_status=True)
NAMESPACE = ResourceKind("Namespace", "namespaces", namespaced=False, has_status=True)
ACCESS_REVIEW = ResourceKind("SelfSubjectAccessReview", "selfsubjectaccessreviews", "authorization.k8s.io",
                             namespaced=False)  # fmt: skip
KINDS = (
    POD, JOB, EVENT, NODE, NAMESPACE, ACCESS_REVIEW,
    ResourceKind("ConfigMap", "configmaps"),
    ResourceKind("Secret", "secrets"),
    ResourceKind("Service", "services", has_status=True),
    ResourceKind("ServiceAccount", "serviceaccounts"),
    ResourceKind("PersistentVolumeClaim", "persistentvolumeclaims", has_status=True),
    ResourceKind("PersistentVolume", "persistentvolumes", namespaced=False, has_status=True),
    ResourceKind("ResourceQuota", "resourcequotas", has_status=True),
    ResourceKind("LimitRange", "limitranges"),
    ResourceKind("Lease", "leases", "coordination.k8s.io"),
    ResourceKind("Role", "roles", "rbac.authorization.k8s.io"),
    ResourceKind("RoleBinding", "rolebindings", "rbac.authorization.k8s.io"),
    ResourceKind("PriorityClass", "priorityclasses", "scheduling.k8s.io", namespaced=False),
    ResourceKind("NetworkPolicy", "networkpolicies", "networking.k8s.io"),
)  # fmt: skip


class FakePlace(NamedTuple):
    """What a path names: objects of a kind, one of them if `name` is set, or a part of that one."""

    kind: ResourceKind
    namespace: str = ""  # empty: all, or none
    name: str = ""
    subresource: str = ""


class KnownKinds:
    """All kinds of one server."""

    def __init__(self, kinds: Iterable[ResourceKind]) -> None:
        self._kinds = list(kinds)

    def add(self, kind: ResourceKind) -> None:
        """As a CustomResourceDefinition would."""
        self._kinds.append(kind)

    def of(self, kind: str) -> ResourceKind:
        """The kind by its name. KeyError."""
        for known in self._kinds:
            if known.kind == kind:
                return known
        raise KeyError(kind)

    def listed(self, group: str, version: str) -> list[ResourceKind]:
        """The kinds of a group, for discovery."""
        return [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]

    def groups(self) -> dict[str, set[str]]:
        """The versions of each named group."""
        found: dict[str, set[str]] = {}
        for kind in self._kinds:
            if kind.group:
                found.setdefault(kind.group, set()).add(kind.version)
        return found

    def place(self, path: str) -> FakePlace:
        """FakeRefusal 404: there is nothing like it."""
        first, *rest = path.strip("/").split("/")
        group = rest.pop(0) if first == "apis" and rest else ""
        if first not in ("api", "apis") or len(rest) < 2:
            raise _nothing()
        version, *names = rest
        if names[0] == "namespaces" and len(names) >= 3 and (kind := self._find(group, version, names[2], True)):
            return FakePlace(kind, names[1], *names[3:5])
        if kind := self._find(group, version, names[0], None):
            return FakePlace(kind, "", *names[1:3])
        raise _nothing()

    def _find(self, group: str, version: str, plural: str, namespaced: bool | None) -> ResourceKind | None:
        for kind in self._kinds:
            if (kind.group, kind.version, kind.plural) == (group, version, plural):
                return kind if namespaced in (None, kind.namespaced) else None
        return None


def _nothing() -> FakeRefusal:
    return FakeRefusal(404, "the server could not find the requested resource")
