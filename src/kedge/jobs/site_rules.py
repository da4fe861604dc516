"""What the settings of a site mean for a job: virtual clusters, cells of HiveD, limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kedge.errors import Problem
from kedge.jobs import site_limits
from kedge.jobs.site_limits import resource
from kedge.settings.values import AllSettings, SettingValue
from kedge.spec.message_text import quote
from kedge.spec.model import Job, Path, TaskRole
from kedge.spec.suggest import did_you_mean, name_list
from kedge.spec.tolerant import mapping

_HIVED = "hivedScheduler"
_WITHOUT_EFFECT = ("jobPriorityClass", "pinnedCellId", "affinityGroupName")  # of HiveD's settings
_SPELLINGS = {_HIVED: (_HIVED, "hivedscheduler"), "skuType": ("skuType", "gpuType")}


class Adapted(NamedTuple):
    """A job as the settings change it, the problems that they find, and notes for the submitter."""

    job: Job
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def apply(job: Job, settings: AllSettings) -> Adapted:
    """The job with the resources of its cells, and every conflict with the settings."""
    adapted = _with_cells(job, settings.group("skus"))
    problems = (*_unknown_cluster(job, settings), *adapted.problems, *site_limits.above(adapted.job, settings))
    return adapted._replace(problems=problems)


def _unknown_cluster(job: Job, settings: AllSettings) -> Iterator[Problem]:
    known, name = settings.group("virtual-clusters"), job.virtual_cluster
    if known and name not in known and name != "default":
        hint = did_you_mean(name, known) or f"; there are {name_list(known)}"
        yield job.source.problem(("defaults", "virtualCluster"), f"there is no virtual cluster {quote(name)}{hint}")


def _with_cells(job: Job, skus: Mapping[str, Mapping[str, SettingValue]]) -> Adapted:
    """The job in which each role with a `skuType` requests whole cells of it, as many as its resources need."""
    wanted = mapping(mapping(job.extras.get(_HIVED)).get("taskRoles"))
    roles, problems, notes = dict(job.task_roles), [], []
    for name, request in wanted.items() if skus else ():
        sku = request.get("skuType")
        if not sku or name not in roles:
            continue
        if sku not in skus:
            hint = did_you_mean(sku, skus) or f"; there are {name_list(skus)}"
            problems.append(job.source.problem(_written(job, name), f"there is no SKU {quote(sku)}{hint}"))
        elif roles[name].resources.gpu and not _size(skus[sku]).gpu:
            message = f"the SKU {quote(sku)} has no GPU ({skus[sku]['cpu'].origin})"
            problems.append(job.source.problem(resource(name, "gpu"), message))
        else:
            roles[name], note = _in_cells(roles[name], sku, skus[sku])
            notes += note
    inert = (*(key for key in job.inert if key != _HIVED), *_still_inert(job, wanted)) if skus else job.inert
    return Adapted(replace(job, task_roles=roles, inert=tuple(inert)), tuple(problems), tuple(notes))


class _Cell(NamedTuple):
    cpu: int
    memory_mb: int
    gpu: int


def _size(sku: Mapping[str, SettingValue]) -> _Cell:
    return _Cell(sku["cpu"].value, sku["memoryMB"].value, sku["gpu"].value if "gpu" in sku else 0)


def _in_cells(role: TaskRole, name: str, sku: Mapping[str, SettingValue]) -> tuple[TaskRole, list[str]]:
    """The role with the resources of whole cells, and a note if these are others than it requests. The number of cells
    is HiveD's: skuNum has no effect there either."""
    own, cell = role.resources, _size(sku)
    pairs = ((own.cpu, cell.cpu), (own.memory_mb, cell.memory_mb), (own.gpu, cell.gpu))
    count = max(1, *(math.ceil(wanted / each) for wanted, each in pairs if each))
    new = replace(own, cpu=count * cell.cpu, memory_mb=count * cell.memory_mb, gpu=count * cell.gpu)
    shown = f"{new.cpu} CPU, {new.memory_mb} MiB, {new.gpu} GPU"
    note = f"{role.name}: each task gets {count} × {name}, which is {shown} ({sku['cpu'].origin})"
    return replace(role, resources=new), [note] if new != own else []


def _still_inert(job: Job, roles: Mapping[str, Any]) -> Iterator[str]:
    """The keys of HiveD that have no effect even with a table of SKUs."""
    used = {*mapping(job.extras.get(_HIVED)), *(key for role in roles.values() for key in mapping(role))}
    yield from (f"{_HIVED}.{key}" for key in _WITHOUT_EFFECT if key in used)


def _written(job: Job, role: str) -> Path:
    """The path of a role's skuType in the file, which may use the older names."""
    for hived in _SPELLINGS[_HIVED]:
        for sku in _SPELLINGS["skuType"]:
            if (path := ("extras", hived, "taskRoles", role, sku)) in job.source.marks:
                return path
    return ("extras", _HIVED)
