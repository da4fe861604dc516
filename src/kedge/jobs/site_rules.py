"""What the settings of a site mean for a job: virtual clusters, cells of HiveD, limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kedge.errors import InputError, Problem
from kedge.resolve.model import Inputs
from kedge.settings.table import HOSTS_LIMIT
from kedge.settings.values import AllSettings, SettingValue
from kedge.spec.message_text import quote
from kedge.spec.model import Job, Path, Resources, TaskRole
from kedge.spec.suggest import did_you_mean, name_list
from kedge.spec.tolerant import mapping

_HIVED = "hivedScheduler"
_WITHOUT_EFFECT = ("jobPriorityClass", "pinnedCellId", "affinityGroupName")  # of HiveD's settings
_SPELLINGS = {_HIVED: (_HIVED, "hivedscheduler"), "skuType": ("skuType", "gpuType")}
_UNITS = {"cpu": ("CPU", "CPUs"), "memoryMB": ("MiB of memory",) * 2, "gpu": ("GPU", "GPUs")}


class Adapted(NamedTuple):
    """A job as the settings change it, the problems that they find, and notes for the submitter."""

    job: Job
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def apply(job: Job, settings: AllSettings) -> Adapted:
    """The job with the resources of its cells, and every conflict with the settings."""
    adapted = _with_cells(job, settings.group("skus"))
    problems = (*_unknown_cluster(job, settings), *adapted.problems, *_above_limits(adapted.job, settings))
    return adapted._replace(problems=problems)


def within_hosts(inputs: Inputs, settings: AllSettings) -> Inputs:
    """The submitter's inputs with only hosts that the site allows. InputError: the submitter names another one."""
    allowed = settings.get(HOSTS_LIMIT)
    if allowed.value is None:
        return inputs
    known = [host.lower() for host in allowed.value]
    for host in inputs.hosts:
        if host.lower() not in known:
            raise InputError(f"--allow-host {host}: limits.hosts does not name this host ({allowed.origin})")
    return replace(inputs, hosts=inputs.hosts or tuple(known))


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
            problems.append(job.source.problem(_resource(name, "gpu"), message))
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


def _above_limits(job: Job, settings: AllSettings) -> Iterator[Problem]:
    """Every limit of the site that the job is above, at the role that requests most."""
    counts = {name: role.instances for name, role in job.task_roles.items()}
    tasks = settings.limit("job", "tasks")
    if tasks.value is not None and (total := sum(counts.values())) > tasks.value:
        biggest = max(counts, key=counts.__getitem__)
        message = f"the job has {total} tasks; {_limit('job.tasks', tasks)}"
        yield job.source.problem(("taskRoles", biggest, "instances"), message)
    for what in _UNITS:
        each = {name: _amount(role.resources, what) for name, role in job.task_roles.items()}
        one, whole = settings.limit("task", what), settings.limit("job", what)
        for name, amount in each.items():
            if one.value is not None and amount > one.value:
                message = f"each task requests {_shown(amount, what)}; {_limit(f'task.{what}', one)}"
                yield job.source.problem(_resource(name, what), message)
        sums = {name: counts[name] * amount for name, amount in each.items()}
        if whole.value is not None and (all_tasks := sum(sums.values())) > whole.value:
            message = f"the tasks of the job request {_shown(all_tasks, what)}; {_limit(f'job.{what}', whole)}"
            yield job.source.problem(_resource(max(sums, key=sums.__getitem__), what), message)


def _amount(resources: Resources, what: str) -> float:
    return {"cpu": resources.cpu, "memoryMB": resources.memory_mb, "gpu": resources.gpu}[what]


def _shown(amount: float, what: str) -> str:
    return f"{amount:.15g} {_UNITS[what][amount != 1]}"


def _resource(role: str, what: str) -> Path:
    return ("taskRoles", role, "resourcePerInstance", what)


def _limit(key: str, value: SettingValue) -> str:
    return f"limits.{key} is {value.value} ({value.origin})"
