"""Whether the nodes that an allocation has not lost hold all tasks of the job."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kedge.engines.slurm import commands
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.in_allocation.step_log import numbers
from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import resources
from kedge.engines.slurm.script.resources import Shape
from kedge.late_patterns import late_pattern
from kedge.plan.model import Plan

_PATIENCE_SEC = 10.0
_COMPONENT = late_pattern(r"(?:^| )HetJobOffset=(\d+)")
_NODES = late_pattern(r"(?:^| )Nodes=(\S+) +CPU_IDs=(\S+) +Mem=\d+(?: +GRES=(\S*))?")
_GRES = late_pattern(r"([^,:()]+)(?::[^,:()]+)?:(\d+)")


class _Share(NamedTuple):
    """What an allocation has of each of some nodes."""

    nodes: str  # as Slurm writes a list
    cpus: int
    gres: dict[str, int]


def shortage(site: SlurmSite, job: str, plan: Plan, options: SlurmOptions, lost: Collection[str]) -> str:
    """What is missing for another attempt without the nodes that are lost, in words. Empty if nothing is, or if Slurm
    does not say: then an attempt shows it."""
    try:
        said = commands.run(site, "scontrol", "--oneliner", "--details", "show", "job", job, patience_sec=_PATIENCE_SEC)
        for number, roles in enumerate(resources.components(plan)):
            needs = resources.shape(roles[0])
            shares = list(_shares(said, number))
            held = sum(_places(share, needs, options) * _count(site, share.nodes, lost) for share in shares)
            needed = sum(role.instances for role in roles)
            if shares and held < needed:
                what = " and ".join(role.name for role in roles)
                return f"the nodes that are left hold {held} of the {needed} tasks of {what}"
    except SlurmError:
        pass
    return ""


def _shares(said: str, component: int) -> Iterator[_Share]:
    """The nodes of one component of the job."""
    for line in said.splitlines():
        found = _COMPONENT.search(line)
        if int(found[1] if found else 0) == component:
            for nodes, cpus, gres in _NODES.findall(line):
                counts: dict[str, int] = {}
                for name, count in _GRES.findall(gres):
                    counts[name] = counts.get(name, 0) + int(count)
                yield _Share(nodes, len(list(numbers(cpus))), counts)


def _places(share: _Share, needs: Shape, options: SlurmOptions) -> int:
    """How many tasks fit on one such node. Memory is counted by core, so it needs no look."""
    places = share.cpus // needs.cpus
    if not needs.gpus:
        return places
    gpus = share.gres.get(options.gres.partition(":")[0], 0) // needs.gpus
    return min(places, gpus if resources.counts_by_task(options.gres) else min(gpus, 1))


def _count(site: SlurmSite, nodes: str, lost: Collection[str]) -> int:
    """How many nodes of a list are not lost."""
    names = commands.run(site, "scontrol", "show", "hostnames", nodes, patience_sec=_PATIENCE_SEC).split()
    return len([name for name in names if name not in lost])
