"""Whether the cluster can ever run a plan: compares what it asks for with what sinfo and scontrol report. Nodes that
are busy or down now count too: the job waits for them."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterable

from kedge.contract import duration_text
from kedge.engines.slurm import associations, cluster_facts, refusals
from kedge.engines.slurm.associations import Associations
from kedge.engines.slurm.cluster_facts import NodeKind, Partition
from kedge.engines.slurm.commands import SlurmError, SlurmSilent, SlurmSite
from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import resources, times
from kedge.errors import CannotRun
from kedge.plan.model import Plan, RolePlan

_COMMANDS = ("sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
_INACTIVE = "accepts no jobs (inactive)"
_CLOSED = {"drain": "accepts no new jobs (drain)", "inact": _INACTIVE, "inactive": _INACTIVE}
_FEATURE = re.compile(r"[\w.-]+")
_CHOOSERS = ("JobSubmitPlugins", "CliFilterPlugins")  # settings that name the site's plugins
_OTHER_PLUGINS = frozenset({"", "(null)", "logging", "require_timelimit", "syslog", "throttle"})  # choose no partition
_NOT_FOR_USERS = "Access/permission denied"  # with PrivateData=nodes, or partitions
_MOST_COMPONENTS = 128  # of a heterogeneous job, a limit of Slurm's own


def check(plan: Plan, options: SlurmOptions) -> None:
    """CannotRun: the cluster can never run the plan, or cannot be asked. The error says what to change."""
    site = SlurmSite(options.commands, options.conf)
    _check_commands(site)
    try:
        found = cluster_facts.read(site)
    except SlurmSilent as error:
        raise CannotRun(
            f"{error}: Slurm's controller (slurmctld) does not answer; check it with scontrol ping"
        ) from None
    except SlurmError as error:
        if _NOT_FOR_USERS in str(error):
            return  # sbatch decides
        raise CannotRun(refusals.unanswered(f"kedge cannot query this cluster: {error}")) from None
    if options.qos:
        lifted = associations.lifted_limits(site, options.qos)
        found = {name: _with_limits(partition, lifted) for name, partition in found.items()}
    own = associations.read(site) if options.account or options.qos else None
    try:
        check_facts(plan, options, found, own)
    except CannotRun:
        if options.partition or not _is_chosen_by_site(site):
            raise
        check_facts(plan, options._replace(partition=",".join(found)), found, own)


def _is_chosen_by_site(site: SlurmSite) -> bool:
    """Whether plugins of the site may choose another partition for a job that names none. True if Slurm does not say:
    sbatch decides."""
    try:
        settings = cluster_facts.settings(site)
    except SlurmError:
        return True
    names = ",".join(settings.get(name, "") for name in _CHOOSERS).split(",")
    return any(name.strip().rpartition("/")[2] not in _OTHER_PLUGINS for name in names)


def check_facts(
    plan: Plan, options: SlurmOptions, found: dict[str, Partition], own: Associations | None = None
) -> None:
    """The same for these partitions. `own` are the accounts of the user, where Slurm enforces them."""
    if len(plan.roles) > _MOST_COMPONENTS and not resources.is_packed(plan):
        raise CannotRun(
            f"Slurm allows at most {_MOST_COMPONENTS} roles with different resources; this job has {len(plan.roles)}"
        )
    named = _partitions(options, found)
    problems = [_problem(plan, options, partition, own) for partition in named]
    if all(problems):  # with several partitions, one that fits is enough
        more = len(problems) - 1
        others = f" ({more} more {'partition does' if more == 1 else 'partitions do'} not fit either)" if more else ""
        raise CannotRun(f"{problems[0]}{others}")


def _with_limits(partition: Partition, lifted: frozenset[str]) -> Partition:
    """The partition without the limits that the quality of service lifts."""
    return partition._replace(
        limit_sec=None if associations.TIME_LIMIT in lifted else partition.limit_sec,
        most_nodes=None if associations.NODE_LIMIT in lifted else partition.most_nodes,
    )


def _check_commands(site: SlurmSite) -> None:
    missing = [name for name in _COMMANDS if not shutil.which(site.program(name))]
    if not missing:
        return
    if site.commands:
        raise CannotRun(
            f"there is no {', '.join(missing)} in {site.commands}: correct engines.slurm.commands in the site's file"
        )
    raise CannotRun(
        f"this machine has no Slurm: no {', '.join(missing)} on PATH. Run kedge on a login node of the cluster, or "
        "name the folder of Slurm's commands with engines.slurm.commands in the site's file"
    )


def _partitions(options: SlurmOptions, found: dict[str, Partition]) -> list[Partition]:
    """Those that the job may run in. CannotRun: there is none, or one of them is unknown."""
    if not options.partition:
        if usual := [partition for partition in found.values() if partition.is_default]:
            return usual
        raise CannotRun(f"the cluster has no default partition: name one with --slurm partition=NAME ({_some(found)})")
    names = options.partition.split(",")
    for name in names:
        if name not in found:
            raise CannotRun(f"there is no partition {name!r}{_near(name, found)}")
    return [found[name] for name in names]


def _problem(plan: Plan, options: SlurmOptions, partition: Partition, own: Associations | None) -> str:
    """Why the plan cannot run in this partition; empty if it can."""
    return (
        _closed(options, partition)
        or _not_allowed(options, partition)
        or (_not_yours(options, partition, own) if own else "")
        or _too_long(plan, options, partition)
        or ("" if partition.hides_nodes else _no_room(plan, options, partition))
    )


def _no_room(plan: Plan, options: SlurmOptions, partition: Partition) -> str:
    """Why the nodes of the partition can never hold all tasks at once."""
    too_large = next((text for role in plan.roles if (text := _too_large(role, options, partition))), "")
    return too_large or _too_many(plan, options, partition)


def _closed(options: SlurmOptions, partition: Partition) -> str:
    if partition.state in _CLOSED:
        return f"the partition {partition.name} {_CLOSED[partition.state]}: use another one"
    if partition.only_root and os.getuid():
        return f"the partition {partition.name} is for administrators (RootOnly): use another one"
    if partition.needs_reservation and not options.reservation:
        return f"the partition {partition.name} accepts only jobs with a reservation: add --slurm reservation=NAME"
    return ""


def _not_allowed(options: SlurmOptions, partition: Partition) -> str:
    account, qos = options.account, options.qos
    if account and account in partition.no_accounts:
        return f"the account {account!r} may not use the partition {partition.name}: use another one"
    if qos and partition.qos and qos not in partition.qos:
        return f"the qos {qos!r} may not use the partition {partition.name}{_near(qos, partition.qos)}"
    if qos and qos in partition.no_qos:
        return f"the qos {qos!r} may not use the partition {partition.name}: use another one"
    return ""


def _not_yours(options: SlurmOptions, partition: Partition, own: Associations) -> str:
    """Why the user may not use the account or the quality of service there."""
    fitting = [each for each in own.known if each.fits(options.account, partition.name)]
    if options.account and not fitting:
        account = options.account
        if others := [each.partition for each in own.known if each.fits(account, each.partition)]:
            where = ", ".join(sorted(others))
            return f"{own.user} may use the account {account!r} in {where}, not in the partition {partition.name}"
        near = _near(account, {each.account for each in own.known if each.fits(None, partition.name)})
        if own.known:
            return f"{own.user} may not use the account {account!r}{near}"
        return f"{own.user} has no account on this cluster, so may not use {account!r}: ask its administrator for one"
    allowed = {qos for each in fitting for qos in each.qos}
    if own.with_qos and options.qos and allowed and options.qos not in allowed:
        whose = f" with the account {options.account!r}" if options.account else ""
        return f"{own.user} may not use the qos {options.qos!r}{whose}{_near(options.qos, allowed)}"
    return ""


def _too_long(plan: Plan, options: SlurmOptions, partition: Partition) -> str:
    wanted, most = times.allocation_sec(plan, options), partition.limit_sec
    if wanted is None or most is None or wanted <= most:
        return ""
    limit = f"the limit of the partition {partition.name} is {duration_text(most)}"
    if options.time_sec == wanted or plan.time_limit is None:
        return f"{limit}, and the job asks for {duration_text(wanted)}: ask for less with --slurm time=TIME"
    around = wanted - plan.time_limit.limit_sec
    return (
        f"{limit}, and the job asks for {duration_text(wanted)}: its time limit ({plan.time_limit.key}) plus "
        f"{around:.0f} s to start, stop and report. Set that limit to {_minutes(most - around)}m or less, or add "
        f"--slurm time={_minutes(most)}m; then Slurm's limit may end the job first"
    )


def _minutes(seconds: float) -> int:
    return max(1, int(seconds // 60))


def _too_large(role: RolePlan, options: SlurmOptions, partition: Partition) -> str:
    """Why no node can hold even one task of a role."""
    needs, kinds = resources.shape(role), _with_features(options, partition)
    if not kinds:
        return _no_feature(options, partition)
    gres = options.gres
    for wanted, what, each in (
        (needs.cpus, "cores", [kind.cpus for kind in kinds]),
        (role.resources.memory_mb, "MiB of memory", [kind.memory_mb for kind in kinds]),
        (needs.gpus, f"GPU{'s' * (needs.gpus > 1)} ({gres})", [kind.gres.get(gres, 0) for kind in kinds]),
    ):
        if wanted > max(each):
            others = _other_gpus(gres, kinds) if what.startswith("GPU") else ""
            most = f"more than {max(each):,}" if max(each) else "any"
            return (
                f"a task of {role.name} asks for {wanted:,} {what}, but no node of the partition {partition.name} has "
                f"{most}{others}: ask for less in resourcePerInstance, or use another partition"
            )
    if not any(_tasks_on(kind, role, options) for kind in kinds):
        return (
            f"no single node of the partition {partition.name} has all that a task of {role.name} asks for "
            f"({needs.cpus} cores, {role.resources.memory_mb:,} MiB, {needs.gpus} GPUs): ask for less in "
            "resourcePerInstance, or use another partition"
        )
    return ""


def _too_many(plan: Plan, options: SlurmOptions, partition: Partition) -> str:
    """Why all tasks can never run at once. Components of a heterogeneous job share no node."""
    kinds, components = _with_features(options, partition), resources.components(plan)
    nodes = min(sum(kind.number for kind in kinds), partition.most_nodes or partition.node_count)
    if len(components) > nodes:
        return (
            f"the job's {len(components)} roles ask for different resources, so Slurm gives each its own nodes, but "
            f"the partition {partition.name} has only {nodes}: give the roles the same resourcePerInstance, or use "
            "another partition"
        )
    for roles in components:
        wanted, names = sum(role.instances for role in roles), ", ".join(role.name for role in roles)
        if wanted > (most := _most_tasks(roles[0], options, kinds, partition.most_nodes)):
            return (
                f"{names}: {wanted:,} tasks must run at once, but the partition {partition.name} can hold at most "
                f"{most:,} of them: start fewer instances, ask for less in resourcePerInstance, or use another "
                "partition"
            )
    return ""


def _most_tasks(role: RolePlan, options: SlurmOptions, kinds: Iterable[NodeKind], most_nodes: int | None) -> int:
    """How many tasks of a role the nodes hold, of which one job may use so many."""
    sizes = sorted(((_tasks_on(kind, role, options), kind.number) for kind in kinds), reverse=True)
    left, total = most_nodes, 0
    for tasks, count in sizes:
        used = count if left is None else min(count, left)
        total += tasks * used
        left = None if left is None else left - used
    return total


def _tasks_on(kind: NodeKind, role: RolePlan, options: SlurmOptions) -> int:
    needs = resources.shape(role)
    fitting = [kind.cpus // needs.cpus]
    if needs.memory_mb:
        by_memory = kind.memory_mb // needs.memory_mb
        fitting.append(kind.cpus if options.exclusive and by_memory else by_memory)
    if needs.gpus:
        by_gpus = kind.gres.get(options.gres, 0) // needs.gpus
        fitting.append(by_gpus if resources.counts_by_task(options.gres) else min(by_gpus, 1))
    return min(fitting)


def _with_features(options: SlurmOptions, partition: Partition) -> tuple[NodeKind, ...]:
    """The nodes with the feature that is asked for; all of them for an expression, which Slurm understands best."""
    feature = options.constraint
    if not feature or not _FEATURE.fullmatch(feature):
        return partition.nodes
    return tuple(kind for kind in partition.nodes if feature in kind.features)


def _no_feature(options: SlurmOptions, partition: Partition) -> str:
    if not partition.nodes:
        return f"the partition {partition.name} has no nodes: use another one"
    known = {feature for kind in partition.nodes for feature in kind.features}
    near = _near(str(options.constraint), known)
    return f"no node of the partition {partition.name} has the feature {options.constraint!r}{near}"


def _other_gpus(gres: str, kinds: Iterable[NodeKind]) -> str:
    """Under which other names the nodes have GPUs."""
    names = sorted({name for kind in kinds for name in kind.gres} - {gres})
    return f" (it has {', '.join(names[:5])}: set --slurm gres)" if names else ""


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=1):
        return f"; did you mean {near[0]!r}?"
    return f"; there {'are' if len(names) > 1 else 'is only'} {_some(names)}" if names else ""


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:8]) + (", …" if len(found) > 8 else "") if found else "none"
