"""The kinds of objects that kedge uses, and where the API has them."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

CORE = "v1"


class Kind(NamedTuple):
    """`api` is the version with its group, such as batch/v1; `plural` the name in paths."""

    name: str
    api: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The group's name; empty for the core."""
        return self.api.rpartition("/")[0]

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The path of all objects of a namespace, of one of them, or of a subresource of it."""
        parts = ["api" if self.api == CORE else "apis", self.api]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        return "/" + "/".join([*parts, self.plural, *(quote(part, safe="") for part in (name, subresource) if part)])


_BATCH, _LEASES, _RBAC = "batch/v1", "coordination.k8s.io/v1", "rbac.authorization.k8s.io/v1"
KINDS = {
    kind.name: kind
    for kind in (
        Kind("ConfigMap", CORE, "configmaps"),
        Kind("Event", CORE, "events"),
        Kind("PersistentVolumeClaim", CORE, "persistentvolumeclaims"),
        Kind("Pod", CORE, "pods"),
        Kind("Secret", CORE, "secrets"),
        Kind("Service", CORE, "services"),
        Kind("ServiceAccount", CORE, "serviceaccounts"),
        Kind("LimitRange", CORE, "limitranges"),
        Kind("ResourceQuota", CORE, "resourcequotas"),
        Kind("Namespace", CORE, "namespaces", namespaced=False),
        Kind("Node", CORE, "nodes", namespaced=False),
        Kind("Job", _BATCH, "jobs"),
        Kind("Lease", _LEASES, "leases"),
        Kind("Role", _RBAC, "roles"),
        Kind("RoleBinding", _RBAC, "rolebindings"),
        Kind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies"),
        Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
        Kind("SelfSubjectAccessReview", "authorization.k8s.io/v1", "selfsubjectaccessreviews", namespaced=False),
        Kind("Framework", "frameworkcontroller.microsoft.com/v1", "frameworks"),
        Kind("LocalQueue", "kueue.x-k8s.io/v1beta1", "localqueues"),
        Kind("Workload", "kueue.x-k8s.io/v1beta1", "workloads"),
    )
}
