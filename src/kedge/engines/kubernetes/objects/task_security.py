"""What tasks may do on their nodes: what the Pod Security standard *baseline* allows, as in kedge's containers on one
machine; *restricted*, or what OpenPAI allows, only where the site says so."""

from __future__ import annotations

from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.light.types import Any
from kedge.plan.model import RolePlan

# Default capabilities of container runtimes that training does not need and that attacks often start with.
DROPPED = ("NET_RAW", "MKNOD", "AUDIT_WRITE", "SETFCAP")
_NOT_BASELINE = ("NET_RAW",)  # pods may have it by default, but must not ask for it
_OF_OPENPAI = ("SYS_ADMIN", "IPC_LOCK", "DAC_READ_SEARCH")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/app"


def of_pod(options: KubernetesOptions) -> dict[str, Any]:
    """The keys of a task pod's spec: its network, and what holds for all of its containers."""
    network = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if options.host_network else {}
    return network | ({"securityContext": {"runAsNonRoot": True}} if options.restricted else {})


def annotations_of(options: KubernetesOptions) -> dict[str, str]:
    return {_APPARMOR: "unconfined"} if options.privileged else {}


def of_task(role: RolePlan, options: KubernetesOptions) -> dict[str, Any]:
    """The security context of the container with the user's image. CannotRun: the site's settings contradict the job's
    capabilities or each other."""
    users = {"runAsUser": options.run_as_user, "runAsGroup": options.run_as_group}
    context: dict[str, Any] = {key: value for key, value in users.items() if value is not None}
    if options.privileged and not options.restricted:
        added = dict.fromkeys((*_OF_OPENPAI, *role.capabilities))
        return context | _capabilities([*added], [] if "MKNOD" in added else ["MKNOD"])
    if options.restricted:
        _check_restricted(role, options)
        context |= {"runAsNonRoot": True, **_capabilities([], ["ALL"])}
    else:
        added = dict.fromkeys(name for name in role.capabilities if name not in _NOT_BASELINE)
        context |= _capabilities([*added], [name for name in DROPPED if name not in role.capabilities])
    return context | {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}}


def _capabilities(added: list[str], dropped: list[str]) -> dict[str, Any]:
    found = ({"add": added} if added else {}) | ({"drop": dropped} if dropped else {})
    return {"capabilities": found} if found else {}


def _check_restricted(role: RolePlan, options: KubernetesOptions) -> None:
    for wrong in ("privileged", "host_network"):
        if getattr(options, wrong):
            key = wrong.replace("_", "-")
            raise CannotRun(f"the site's file sets engines.kubernetes.restricted and {key}, which exclude each other")
    if role.capabilities:
        names = ", ".join(role.capabilities)
        raise CannotRun(
            f"the role {role.name} asks for capabilities ({names}), and this site runs tasks by the Pod Security "
            "standard restricted, which allows none: remove extras.kedge.capabilities"
        )
