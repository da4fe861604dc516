"""What the roles of a plan ask Slurm for, as options that `sbatch` and `srun` share. Pure.

Memory is asked for by core even where a task has GPUs: Slurm then counts it the same way for the allocation and for
each of its steps, however the tasks lie on the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from kedge.engines.slurm.options import SlurmOptions
from kedge.plan.model import Plan, RolePlan

_GPU = "gpu"  # the only name of GPUs for which Slurm counts them by task
_WHOLE_CORES = "--threads-per-core=1"


class Shape(NamedTuple):
    """What one task needs, in Slurm's units: whole cores, MiB for each of them, and GPUs."""

    cpus: int
    memory_per_cpu_mb: int
    gpus: int

    @property
    def memory_mb(self) -> int:
        return self.cpus * self.memory_per_cpu_mb


def shape(role: RolePlan) -> Shape:
    """What each task of a role needs."""
    cpus = max(1, role.resources.whole_cpus)
    return Shape(cpus, math.ceil(role.resources.memory_mb / cpus), role.resources.gpu)


def is_packed(plan: Plan) -> bool:
    """Whether all roles have one shape, so that one allocation holds their tasks in any order; otherwise each role has
    a component of a heterogeneous job."""
    return len({shape(role) for role in plan.roles}) == 1


def components(plan: Plan) -> tuple[tuple[RolePlan, ...], ...]:
    """The roles of each component of the job."""
    return (plan.roles,) if is_packed(plan) else tuple((role,) for role in plan.roles)


def of_component(roles: tuple[RolePlan, ...], options: SlurmOptions) -> Iterator[str]:
    """The options for the resources of a component of the job, which holds the tasks of these roles."""
    yield f"--ntasks={sum(role.instances for role in roles)}"
    yield from _of_task(roles[0], options, options.gres)
    yield from _own_cores(roles)


def of_step(plan: Plan, role: RolePlan, options: SlurmOptions) -> Iterator[str]:
    """The options for the resources of the step of a role. All GPUs of its allocation have one type; if a step names it
    again, Slurm 22.05 shows its tasks no GPU at all as soon as there are two of them on a node."""
    name = options.gres.partition(":")[0] if counts_by_task(options.gres) else options.gres
    yield f"--ntasks={role.instances}"
    yield from _of_task(role, options, name)
    if is_packed(plan) and _leaves_threads(plan.roles):
        yield _WHOLE_CORES


def _own_cores(roles: tuple[RolePlan, ...]) -> Iterator[str]:
    """Where Slurm gives whole cores with several threads, each step takes its own ones. Without this the allocation
    has too few: tasks of two roles would share one, and the step of the second role would never start."""
    if _leaves_threads(roles):
        yield _WHOLE_CORES
    elif len(roles) > 1:
        yield "--ntasks-per-core=1"


def _leaves_threads(roles: tuple[RolePlan, ...]) -> bool:
    """Whether tasks of several roles do not use the second threads of their cores. Slurm 22.05 chooses the nodes of a
    step by threads, and its cores on these nodes afterwards: a step for which there are cores elsewhere would wait for
    a node on which only such threads are left."""
    return len(roles) > 1 and shape(roles[0]).cpus % 2 == 1


def _of_task(role: RolePlan, options: SlurmOptions, gres: str) -> Iterator[str]:
    needs = shape(role)
    yield f"--cpus-per-task={needs.cpus}"
    # On an exclusive node, Slurm would multiply memory by core with all cores, and find no node that is large enough.
    yield "--mem=0" if options.exclusive else f"--mem-per-cpu={needs.memory_per_cpu_mb}M"
    if needs.gpus:
        yield from _gpus(needs.gpus, gres)


def counts_by_task(gres: str) -> bool:
    """Whether Slurm counts GPUs of this name by task; others by node, so that a node gets one task."""
    return gres.partition(":")[0] == _GPU


def _gpus(count: int, gres: str) -> Iterator[str]:
    kind = gres.partition(":")[2]
    if counts_by_task(gres):
        yield f"--gpus-per-task={f'{kind}:' if kind else ''}{count}"
    else:  # Slurm counts these by node
        yield "--ntasks-per-node=1"
        yield f"--gres={gres}:{count}"
