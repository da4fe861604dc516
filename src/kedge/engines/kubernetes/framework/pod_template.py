"""The pods of a role of a Framework: an init container with the init phase, and the user's container."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kedge.contract import PAI_HOME, converted_role, show_text
from kedge.engines.kubernetes.framework import hived
from kedge.engines.kubernetes.framework.addons import AddonNames
from kedge.engines.kubernetes.framework.hived import HivedCells
from kedge.engines.kubernetes.framework.site import FrameworkSite
from kedge.plan.model import Plan, RolePlan

_SHM_MB = 512
_INDEX = "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
_INDEX_FIELD = {"fieldRef": {"fieldPath": "metadata.annotations['FC_TASK_INDEX']"}}
_OF_CONTROLLER = "FC_"  # variables that FrameworkController adds itself
_OF_COMMAND = "NVIDIA_VISIBLE_DEVICES"  # for the user's container alone
_FUSE = "github.com/fuse"
_TERMINATION_FILE = "/tmp/pai-termination-log"  # noqa: S108  (where OpenPAI's runtime writes it)


def of(
    plan: Plan, role: RolePlan, site: FrameworkSite, addons: AddonNames, cells: HivedCells | None = None
) -> dict[str, Any]:
    """The template of all pods of a role; `cells` are what it requests of HiveD."""
    annotations = {"rest-server/port-scheduling-spec": _ports(role, site)}
    if cells:
        annotations[hived.ANNOTATION] = cells.text
    if site.unconfined:
        annotations["container.apparmor.security.beta.kubernetes.io/app"] = "unconfined"
    return {
        "metadata": {
            "labels": {"userName": plan.user, "virtualCluster": plan.virtual_cluster, "type": "kube-launcher-task"},
            "annotations": annotations,
        },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": site.service_account,
            "hostNetwork": site.host_network,
            **({"priorityClassName": addons.priority_class} if addons.priority_class else {}),
            "imagePullSecrets": _pull_secrets(role, site, addons),
            **_placement(site),
            **({"schedulerName": cells.scheduler} if cells else {}),
            "initContainers": [_init(plan, role, site, addons)],
            "containers": [_app(plan, role, site, addons, cells)],
            "volumes": _volumes(plan, role, site, addons),
        },
    }


def _ports(role: RolePlan, site: FrameworkSite) -> str:
    """The rule by which all tasks work out the ports of a pod from its UID."""
    labels = {label: count for label, count in role.resources.ports.items() if label not in ("ssh", "http")}
    labels |= {label: role.resources.ports.get(label, 1) for label in ("ssh", "http")}
    ports = {label: {"count": count} for label, count in labels.items()}
    spec = {"schedulePortStart": site.ports[0], "schedulePortEnd": site.ports[1], "ports": ports}
    return json.dumps(spec, separators=(",", ":"))


def _pull_secrets(role: RolePlan, site: FrameworkSite, addons: AddonNames) -> list[dict[str, str]]:
    names = list(site.pull_secrets)
    names += [addons.registry_secret] if role.auth else []
    return [{"name": name} for name in names]


def _placement(site: FrameworkSite) -> dict[str, Any]:
    """Which nodes a pod may run on."""
    found: dict[str, Any] = {"nodeSelector": dict(site.node_labels)} if site.node_labels else {}
    found |= {"tolerations": [dict(each) for each in site.tolerations]} if site.tolerations else {}
    return found | _affinity(site)


def _affinity(site: FrameworkSite) -> dict[str, Any]:
    if not site.node_label:
        return {}
    key, _, value = site.node_label.partition("=")
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _init(plan: Plan, role: RolePlan, site: FrameworkSite, addons: AddonNames) -> dict[str, Any]:
    settings = {
        "USER_CMD": show_text(role.command),
        "KUBE_APISERVER_ADDRESS": site.api_server,
        "REST_SERVER_URI": site.rest_server,
        "GANG_ALLOCATION": "true" if plan.gang else "false",
    }
    given = {name: value for name, value in settings.items() if value}
    return {
        "name": "init",
        "image": site.runtime_image,
        **_policy(site.pull_policy),
        "env": _variables({**given, **_of_pod(plan, role)}),
        "volumeMounts": [
            *_common_mounts(plan, role, site, addons),
            {"name": "job-exit-spec", "mountPath": "/usr/local/pai-config"},
        ],
    }


def _policy(policy: str) -> dict[str, str]:
    return {"imagePullPolicy": policy} if policy else {}


def _app(
    plan: Plan, role: RolePlan, site: FrameworkSite, addons: AddonNames, cells: HivedCells | None
) -> dict[str, Any]:
    own = {_OF_COMMAND: role.environment[_OF_COMMAND]} if _OF_COMMAND in role.environment else {}
    own |= {name: show_text(text) for name, text in role.env.items()}
    isolated = hived.variables() if cells and role.resources.gpu else []
    security = {"add": list(dict.fromkeys((*site.capabilities, *role.capabilities))), "drop": list(site.dropped)}
    return {
        "name": "app",
        "image": role.image,
        **_policy(site.app_pull_policy),
        "command": [f"{PAI_HOME}/runtime"],
        "env": [
            *_variables({**_of_pod(plan, role), **own}),
            {"name": "PAI_TASK_INDEX", "valueFrom": _INDEX_FIELD},
            *isolated,
        ],
        "resources": {"limits": _limits(role, site, cells)},
        "securityContext": {"capabilities": {key: names for key, names in security.items() if names}},
        "terminationMessagePath": _TERMINATION_FILE,
        "volumeMounts": [
            *_common_mounts(plan, role, site, addons),
            {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108  (a mount point in the pod)
            *(_storage_mounts(plan)),
        ],
    }


def _of_pod(plan: Plan, role: RolePlan) -> dict[str, str]:
    """The variables of both containers."""
    known = {**plan.environment, **role.environment}
    return {name: value for name, value in known.items() if not name.startswith(_OF_CONTROLLER) and name != _OF_COMMAND}


def _variables(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """As Kubernetes takes them. A dollar sign with a bracket would be a reference to another variable."""
    plain = [{"name": name, "value": value.replace("$(", "$$(")} for name, value in values.items()]
    return [*plain, {"name": _INDEX, "valueFrom": _INDEX_FIELD}]


def _limits(role: RolePlan, site: FrameworkSite, cells: HivedCells | None) -> dict[str, Any]:
    """The requests of a container without requests are its limits. HiveD gives out devices by its cells."""
    limits: dict[str, Any] = {"cpu": role.resources.cpu, "memory": f"{role.resources.memory_mb}Mi"}
    limits |= {_FUSE: 1} if site.fuse else {}
    if cells:
        limits[hived.ENABLED] = 1
    elif role.resources.gpu:
        limits[site.gpu] = role.resources.gpu
    return limits | ({site.rdma: 1} if role.infiniband else {})


def _common_mounts(plan: Plan, role: RolePlan, site: FrameworkSite, addons: AddonNames) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [{"name": "pai-vol", "mountPath": PAI_HOME}]
    if site.log_folder:
        path = f"{plan.user}/{addons.framework}/{converted_role(role.name)}"
        mounts.append({"name": "host-log", "mountPath": f"{PAI_HOME}/logs", "subPath": path})
    if addons.has_secrets:
        mounts.append({"name": "job-secrets", "mountPath": f"{PAI_HOME}/secrets"})
    return mounts


def _storage_mounts(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"name": f"{mount.name}-volume", "mountPath": mount.path, **({"readOnly": True} if mount.read_only else {})}
        for mount in plan.mounts
    ]


def _volumes(plan: Plan, role: RolePlan, site: FrameworkSite, addons: AddonNames) -> list[dict[str, Any]]:
    claims = {mount.name: mount.read_only for mount in plan.mounts}
    shm = {"medium": "Memory", "sizeLimit": f"{role.shm_mb or _SHM_MB}Mi"}
    volumes: list[dict[str, Any]] = [{"name": "dshm", "emptyDir": shm}, {"name": "pai-vol", "emptyDir": {}}]
    volumes += [{"name": "host-log", "hostPath": {"path": site.log_folder}}] if site.log_folder else []
    volumes.append({"name": "job-exit-spec", "configMap": {"name": site.exit_spec, "optional": True}})
    if addons.has_secrets:
        volumes.append({"name": "job-secrets", "secret": {"secretName": addons.job_secret}})
    for name, read_only in claims.items():
        claim = {"claimName": name, **({"readOnly": True} if read_only else {})}
        volumes.append({"name": f"{name}-volume", "persistentVolumeClaim": claim})
    return volumes
