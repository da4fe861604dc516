"""Notes for the submitter of a job about how Slurm runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kedge.engines.machine import linked_storages
from kedge.engines.slurm.options import APPTAINER, BARE, PYXIS, SlurmOptions
from kedge.engines.slurm.script import resources
from kedge.errors import CannotRun
from kedge.plan.model import Plan, RolePlan

_SITES = "whether these limits are enforced depends on the cluster (cgroups)"
_RUNTIMES = {PYXIS: "pyxis", APPTAINER: "Apptainer"}
_IGNORED = "SBATCH_"  # variables with which users set options of sbatch


def of(plan: Plan, options: SlurmOptions, environment: Mapping[str, str]) -> Iterator[str]:
    """The notes, for a submitter with this environment."""
    if options.container == BARE:
        yield "the slurm engine uses no images here: tasks run as processes, with the software that the nodes have"
        yield from linked_storages.notes(plan, "slurm")
    else:
        yield from _of_containers(plan, options)
    yield from _of_resources(plan, options)
    if names := sorted(name for name in environment if name.startswith(_IGNORED)):
        keys = ", ".join(f"--slurm {name.removeprefix(_IGNORED).lower()}=…" for name in names[:2])
        yield f"{', '.join(names)} in your environment has no effect; use {keys} where kedge has such an option"
    if options.requeue and plan.time_limit is None:
        yield "each requeue starts the time limit of the allocation anew; extras.kedge.timeLimit limits the whole run"


def _of_containers(plan: Plan, options: SlurmOptions) -> Iterator[str]:
    runtime = _RUNTIMES[options.container]
    if names := _names(role for role in plan.roles if role.auth):
        yield f"{runtime} does not get the credentials of the image of {names}: log in to the registry on the cluster"
    if names := _names(role for role in plan.roles if role.shm_mb):
        yield f"shmMB has no effect with {runtime}: {names} shares /dev/shm with the node"
    if names := _names(role for role in plan.roles if role.capabilities):
        yield f"{runtime} cannot add capabilities to containers: {names} runs without them"


def _of_resources(plan: Plan, options: SlurmOptions) -> Iterator[str]:
    yield f"Slurm reserves cores and memory for each task; {_SITES}"
    if parts := [role for role in plan.roles if role.resources.cpu != resources.shape(role).cpus]:
        shown = ", ".join(f"{role.name} {resources.shape(role).cpus}" for role in parts)
        yield f"Slurm gives whole cores, so fractions are rounded up: {shown}"
    if not resources.is_packed(plan):
        yield (
            "the roles ask for different resources, so each role gets its own nodes; with the same "
            "resourcePerInstance they could share nodes"
        )
    if options.exclusive:
        yield "with exclusive nodes, Slurm places tasks by their cores and GPUs, not by their memory"
    gpus = [role for role in plan.roles if role.resources.gpu]
    if gpus and not resources.counts_by_task(options.gres):
        yield f"Slurm counts {options.gres} by node, so each node runs one task of {_names(gpus)}"


def _names(roles: Iterator[RolePlan] | list[RolePlan]) -> str:
    return ", ".join(role.name for role in roles)


def check_storages(plan: Plan, options: SlurmOptions) -> None:
    """CannotRun for a storage that tasks cannot have."""
    linked_storages.check(plan, "slurm", "all nodes")
    for mount in plan.mounts if options.container != BARE else ():
        for path in (mount.folder or "", mount.path):
            if ":" in path or "," in path:
                raise CannotRun(
                    f"the storage {mount.name} cannot be mounted: {_RUNTIMES[options.container]} accepts no path with "
                    f"a colon or a comma, such as {path}"
                )
