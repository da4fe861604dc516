"""What a job requests of HiveD, the scheduler of OpenPAI that gives out cells of GPUs by virtual cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kedge.engines.kubernetes import manifest_text
from kedge.plan.model import Plan, RolePlan

ANNOTATION = "hivedscheduler.microsoft.com/pod-scheduling-spec"
ENABLED = "hivedscheduler.microsoft.com/pod-scheduling-enable"
_ISOLATION = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"
_DEVICES = ("NVIDIA_VISIBLE_DEVICES", "HIVED_VISIBLE_DEVICES")
_PRIORITIES = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}
_USUAL = "test"
_SPELLINGS = ("hivedScheduler", "hivedscheduler")
_DEFAULT_GROUP = "default"


class HivedCells(NamedTuple):
    """What the pods of a role carry: the annotation as YAML, and the name of their scheduler."""

    text: str
    scheduler: str


def priority(extras: Mapping[str, Any]) -> int:
    """The priority of the job."""
    return _PRIORITIES.get(str(_settings(extras).get("jobPriorityClass", _USUAL)), _PRIORITIES[_USUAL])


def cells(plan: Plan, extras: Mapping[str, Any], scheduler: str) -> dict[str, HivedCells]:
    """The cells of each role, by its name."""
    wanted = _mapping(_settings(extras).get("taskRoles"))
    groups = {role.name: _group(_mapping(wanted.get(role.name))) for role in plan.roles}
    if plan.gang and not any(groups.values()):
        groups = dict.fromkeys(groups, _DEFAULT_GROUP)
    made = {}
    for role in plan.roles:
        spec = _spec(plan, role, _mapping(wanted.get(role.name)), priority(extras))
        members = [
            _member(other) for other in plan.roles if groups[role.name] and groups[other.name] == groups[role.name]
        ]
        name = f"{plan.user}~{plan.job}/{groups[role.name]}"
        spec["affinityGroup"] = {"name": name, "members": members} if members else None
        text = manifest_text.text(spec).removeprefix("---\n")
        made[role.name] = HivedCells(text, f"{scheduler}-ds-{plan.virtual_cluster}")
    return made


def variables() -> list[dict[str, Any]]:
    """The variables that show a task its GPUs, which HiveD writes to its pod."""
    field = {"fieldRef": {"fieldPath": f"metadata.annotations['{_ISOLATION}']"}}
    return [{"name": name, "valueFrom": field} for name in _DEVICES]


def _spec(plan: Plan, role: RolePlan, wanted: Mapping[str, Any], level: int) -> dict[str, Any]:
    return {
        "virtualCluster": plan.virtual_cluster,
        "priority": level,
        "pinnedCellId": next(_first(wanted, "pinnedCellId", "reservationId"), None),
        "leafCellType": next(_first(wanted, "skuType", "gpuType"), None),
        "leafCellNumber": _count(role),
    }


def _member(role: RolePlan) -> dict[str, int]:
    return {"podNumber": role.instances, "leafCellNumber": _count(role)}


def _count(role: RolePlan) -> int:
    """The cells of a task: one a GPU; a task without any needs one, too, to be placed."""
    return max(1, role.resources.gpu)


def _group(wanted: Mapping[str, Any]) -> str:
    return str(wanted.get("affinityGroupName") or "")


def _first(wanted: Mapping[str, Any], *names: str) -> Iterator[Any]:
    return (wanted[name] for name in names if wanted.get(name))


def _settings(extras: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((_mapping(extras[name]) for name in _SPELLINGS if name in extras), {})


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
