"""The limits of a site: jobs above them are refused, and a run without a time limit gets that of the site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kedge.contract import SITE_TIME_LIMIT, TaskTimeLimit, duration_text
from kedge.errors import InputError, Problem
from kedge.plan.model import Plan
from kedge.resolve.model import Inputs
from kedge.settings.table import HOLD_LIMIT, HOSTS_LIMIT, TIME_LIMIT
from kedge.settings.values import AllSettings, SettingValue
from kedge.spec.model import Job, Path, Resources
from kedge.spec.units import seconds

_UNITS = {"cpu": ("CPU", "CPUs"), "memoryMB": ("MiB of memory",) * 2, "gpu": ("GPU", "GPUs")}


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


def within_time(plan: Plan, settings: AllSettings) -> Plan:
    """The plan with the time limit of the site, if the job has none of its own."""
    limit = settings.get(TIME_LIMIT)
    if limit.value is None or plan.time_limit:
        return plan
    longest = seconds(limit.value)
    note = f"the site ends the run after {duration_text(longest)} ({limit.origin})"
    return replace(plan, time_limit=TaskTimeLimit(SITE_TIME_LIMIT, longest), notes=(*plan.notes, note))


def within_hold(plan: Plan, settings: AllSettings) -> Plan:
    """The same plan. InputError: a task that fails would be held for longer than the site allows."""
    limit = settings.get(HOLD_LIMIT)
    if plan.hold_sec is None or limit.value is None or plan.hold_sec <= (longest := seconds(limit.value)):
        return plan
    most = f"at most {duration_text(longest)}" if longest else "no holds at all"
    asked = duration_text(plan.hold_sec)
    raise InputError(f"--hold-on-failure: {asked} is too long; {HOLD_LIMIT.key} allows {most} ({limit.origin})")


def above(job: Job, settings: AllSettings) -> Iterator[Problem]:
    """Every limit of the site that the job is above, at the role that requests most."""
    yield from _too_many_tasks(job, settings)
    yield from _too_long(job, settings)
    for what in _UNITS:
        each = {name: _amount(role.resources, what) for name, role in job.task_roles.items()}
        yield from _too_large(job, each, what, settings.limit("task", what))
        sums = {name: job.task_roles[name].instances * amount for name, amount in each.items()}
        whole = settings.limit("job", what)
        if whole.value is not None and (total := _sum(sums.values())) > whole.value:
            message = f"the tasks of the job request {_shown(total, what)}; {_limit(f'job.{what}', whole)}"
            yield job.source.problem(resource(max(sums, key=sums.__getitem__), what), message)


def _too_many_tasks(job: Job, settings: AllSettings) -> Iterator[Problem]:
    counts = {name: role.instances for name, role in job.task_roles.items()}
    most = settings.limit("job", "tasks")
    if most.value is not None and (total := sum(counts.values())) > most.value:
        path = ("taskRoles", max(counts, key=counts.__getitem__), "instances")
        yield job.source.problem(path, f"the job has {total} tasks; {_limit('job.tasks', most)}")


def _too_long(job: Job, settings: AllSettings) -> Iterator[Problem]:
    longest, own = settings.get(TIME_LIMIT), job.kedge.time_limit_sec
    if longest.value is not None and own is not None and own > seconds(longest.value):
        message = f"the run may take {duration_text(own)}; {_limit('job.timeLimit', longest)}"
        yield job.source.problem(("extras", "kedge", "timeLimit"), message)


def _too_large(job: Job, each: Mapping[str, float], what: str, limit: SettingValue) -> Iterator[Problem]:
    for name, amount in each.items():
        if limit.value is not None and amount > limit.value:
            message = f"each task requests {_shown(amount, what)}; {_limit(f'task.{what}', limit)}"
            yield job.source.problem(resource(name, what), message)


def _sum(amounts: Iterable[float]) -> float:
    """The sum, without what binary fractions add to it: 100 times 0.07 is 7."""
    return round(sum(amounts), 6)


def _amount(resources: Resources, what: str) -> float:
    return {"cpu": resources.cpu, "memoryMB": resources.memory_mb, "gpu": resources.gpu}[what]


def _shown(amount: float, what: str) -> str:
    return f"{amount:.15g} {_UNITS[what][amount != 1]}"


def resource(role: str, what: str) -> Path:
    """The path of a resource that a role requests."""
    return ("taskRoles", role, "resourcePerInstance", what)


def _limit(key: str, value: SettingValue) -> str:
    return f"limits.{key} is {value.value} ({value.origin})"
