"""What the submitter and the driver of a job must be allowed to do in a namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.objects.labels import KEDGE, MANAGED_BY
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.engines.kubernetes.transport.kinds import KINDS
from kedge.errors import CannotRun

USER_ROLE = "kedge-user"
PRIORITY_ROLE = "kedge-priorities"
_RBAC = "rbac.authorization.k8s.io"
_AT_ONCE = 8


class PermissionRule(NamedTuple):
    """A rule of a Role: the kind of an object, a subresource of it, and what one may do with it."""

    kind: str
    verbs: tuple[str, ...]
    subresource: str = ""

    @property
    def resource(self) -> str:
        """Its name in a Role."""
        plural = KINDS[self.kind].plural
        return f"{plural}/{self.subresource}" if self.subresource else plural


_READ = ("get", "list", "watch")
# What a submitter needs, also to see, stop and remove its runs.
USER_RULES = (
    PermissionRule("ConfigMap", ("create", *_READ, "update", "patch", "delete")),
    PermissionRule("Secret", ("create", "get", "delete")),
    PermissionRule("Service", ("create", "get", "delete")),
    PermissionRule("Job", ("create", *_READ, "delete")),
    PermissionRule("Pod", ("create", *_READ, "delete")),
    PermissionRule("Pod", ("create", "get"), "exec"),
    PermissionRule("Pod", ("get",), "log"),
    PermissionRule("Event", ("list",)),
    PermissionRule("ServiceAccount", ("get",)),
)
# What the driver needs. It hands its own account to no task.
DRIVER_RULES = (
    PermissionRule("Pod", ("create", *_READ, "delete")),
    PermissionRule("Pod", ("get",), "log"),
    PermissionRule("ConfigMap", ("create", *_READ, "update", "patch")),
    PermissionRule("Secret", ("create", "get", "update", "patch", "delete")),
    PermissionRule("Lease", ("create", "get", "update", "patch")),
    PermissionRule("Event", ("create", "list")),
)
# With Kueue. They are rules of their own, since nobody may hand out rights that he does not have himself.
QUEUE_USER_RULES = (PermissionRule("LocalQueue", ("get", "list")),)
QUEUE_DRIVER_RULES = (PermissionRule("Workload", ("get", "list", "delete")),)
NETWORK_RULES = (PermissionRule("NetworkPolicy", ("create", "get", "delete")),)  # with a site's `network-policy`
# For jobs that FrameworkController runs: of their submitters, and of their pods, whose init phase reads the Framework.
FRAMEWORK_USER_RULES = (
    PermissionRule("Framework", ("create", *_READ, "patch", "delete")),
    PermissionRule("Secret", ("patch",)),
)
FRAMEWORK_POD_RULES = (PermissionRule("Framework", _READ),)
PRIORITY_RULES = (PermissionRule("PriorityClass", ("create", "get", "delete")),)
_NEEDED_FRAMEWORK = (
    ("create", "Framework", ""), ("get", "Framework", ""), ("patch", "Framework", ""), ("delete", "Framework", ""),
    ("create", "Secret", ""), ("patch", "Secret", ""), ("list", "Pod", ""), ("get", "Pod", "log"),
)  # fmt: skip
# Without these no job can be submitted.
_NEEDED = (
    ("create", "ConfigMap", ""), ("patch", "ConfigMap", ""), ("delete", "ConfigMap", ""), ("create", "Secret", ""),
    ("create", "Service", ""), ("create", "Job", ""), ("list", "Pod", ""), ("create", "Pod", "exec"),
)  # fmt: skip
_NEEDED_FOR_QUEUE = (("get", "LocalQueue", ""), ("list", "LocalQueue", ""))
_NEEDED_FOR_NETWORK = (("create", "NetworkPolicy", ""),)


def check(api: KubernetesApi, options: KubernetesOptions, setup: str) -> None:
    """CannotRun: this user may not submit jobs in the namespace; the message names what is missing, and `setup`, the
    command that prints the Role."""
    needed = [*_NEEDED, *(_NEEDED_FOR_NETWORK if options.network_policy else ())]
    needed += _NEEDED_FOR_QUEUE if options.queue else ()
    _check(api, setup, needed)


def check_frameworks(api: KubernetesApi, setup: str, *, priorities: bool) -> None:
    """The same for jobs that FrameworkController runs; `priorities`: each has a priority class of its own."""
    _check(api, setup, (*_NEEDED_FRAMEWORK, *([("create", "PriorityClass", "")] if priorities else [])))


def _check(api: KubernetesApi, setup: str, needed: Sequence[tuple[str, str, str]]) -> None:
    if api.can("*", "*"):  # an administrator is asked no more
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        allowed = list(pool.map(lambda each: api.can(*each), needed))
    if missing := [each for each, can in zip(needed, allowed, strict=True) if not can]:
        setup += " --queues" if any(kind == "LocalQueue" for _, kind, _ in missing) else ""
        names = ", ".join(_shown(*each) for each in missing)
        typo = "" if any(allowed) else " (or is there no such namespace? You may not look)"
        raise CannotRun(
            f"you may not run jobs in the namespace {api.namespace} of {api.server}{typo}: you lack {names}. An "
            f"administrator of the namespace can give you the Role {USER_ROLE}: {setup} --user NAME prints it"
        )


def _shown(verb: str, kind: str, subresource: str) -> str:
    rule = PermissionRule(kind, (verb,), subresource)
    return f"{verb} {rule.resource}"


def check_service_account(api: KubernetesApi, name: str, setup: str) -> None:
    """CannotRun: the namespace has no service account for the driver. Nothing is known if one may not look."""
    if not is_there(api, "ServiceAccount", name):
        raise CannotRun(
            f"the namespace {api.namespace} has no service account {name!r} for the driver of a job: an administrator "
            f"of the namespace makes it with {setup} | kubectl apply -f -"
        )


def is_there(api: KubernetesApi, kind: str, name: str) -> bool:
    """Whether an object exists; True if one may not look, as for most users."""
    try:
        return api.get(kind, name) is not None
    except ApiError as error:
        if error.status == 403:
            return True
        raise


def driver_objects(namespace: str, account: str, *, queues: bool = False) -> list[dict[str, Any]]:
    """The ServiceAccount of the driver, its Role and RoleBinding. `queues`: with what it needs for Kueue."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(account, namespace)},
        _role(account, namespace, (*DRIVER_RULES, *(QUEUE_DRIVER_RULES if queues else ()))),
        _binding(account, namespace, [subject]),
    ]


def user_objects(
    namespace: str, users: Iterable[str] = (), groups: Iterable[str] = (), *, queues: bool = False,
    network: bool = False, frameworks: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """The Role of those who submit jobs, and who has it. `queues`, `network` and `frameworks`: with what they need for
    Kueue, for network policies, and for Frameworks."""
    subjects = [{"kind": kind, "name": name, "apiGroup": _RBAC} for kind, name in _subjects(users, groups)]
    more = (*(QUEUE_USER_RULES if queues else ()), *(NETWORK_RULES if network else ()))
    more += FRAMEWORK_USER_RULES if frameworks else ()
    role = _role(USER_ROLE, namespace, (*USER_RULES, *more))
    return [role, *([_binding(USER_ROLE, namespace, subjects)] if subjects else [])]


def framework_objects(namespace: str, account: str) -> list[dict[str, Any]]:
    """The ServiceAccount of the pods of Frameworks, its Role and RoleBinding."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(account, namespace)},
        _role(account, namespace, FRAMEWORK_POD_RULES),
        _binding(account, namespace, [subject]),
    ]


def priority_objects(namespace: str, users: Iterable[str] = (), groups: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The ClusterRole of those whose Frameworks have priority classes, and who has it."""
    subjects = [{"kind": kind, "name": name, "apiGroup": _RBAC} for kind, name in _subjects(users, groups)]
    name = f"{PRIORITY_ROLE}-{namespace}"  # it belongs to the whole cluster
    found = []
    for made in (_role(name, "", PRIORITY_RULES), _binding(name, "", subjects)):
        head = {key: value for key, value in made["metadata"].items() if value}
        made = {**made, "kind": f"Cluster{made['kind']}", "metadata": head}
        found.append(made | ({"roleRef": {**made["roleRef"], "kind": "ClusterRole"}} if "roleRef" in made else {}))
    return found


def _subjects(users: Iterable[str], groups: Iterable[str]) -> Iterable[tuple[str, str]]:
    return (*(("User", name) for name in users), *(("Group", name) for name in groups))


def _role(name: str, namespace: str, rules: Iterable[PermissionRule]) -> dict[str, Any]:
    return {
        "apiVersion": KINDS["Role"].api,
        "kind": "Role",
        "metadata": _named(name, namespace),
        "rules": [
            {"apiGroups": [KINDS[rule.kind].group], "resources": [rule.resource], "verbs": list(rule.verbs)}
            for rule in rules
        ],
    }


def _binding(name: str, namespace: str, subjects: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "apiVersion": KINDS["RoleBinding"].api,
        "kind": "RoleBinding",
        "metadata": _named(name, namespace),
        "subjects": subjects,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
    }


def _named(name: str, namespace: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": {MANAGED_BY: KEDGE}}
