"""From a plan to the sbatch script and to the srun lines of its roles. Pure: no I/O, no clock, no environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kedge.engines.slurm import clock
from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import batch_body, containers, resources, times
from kedge.errors import CannotRun
from kedge.plan.model import Plan, RolePlan

_INDEX_VARIABLE, _NODE_VARIABLE = "SLURM_PROCID", "SLURMD_NODENAME"  # of each task of a step
_STEP_VARIABLE, _JOB_VARIABLE = "SLURM_STEP_ID", "SLURM_JOB_ID"
_CLUSTER = "cluster"  # the folder of a run for these files, as in runs.cluster_files
_BATCH_LOG = "batch.log"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


class SlurmPlace(NamedTuple):
    """Where a job runs: the id and the folder of its run, and the bundle, all of them on the shared file system.
    `attempt` is the number of the job attempt, for the names of step logs."""

    run: str
    folder: str
    bundle: str
    attempt: int = 0


def script(plan: Plan, options: SlurmOptions, place: SlurmPlace) -> str:
    """The batch script of a job. CannotRun: a path cannot be written in it."""
    _check_path(place.folder)
    _check_path(place.bundle)
    groups = ("".join(f"#SBATCH {line}\n" for line in group) for group in _directives(plan, options, place))
    user = "".join(letter if letter.isprintable() else "?" for letter in plan.user)  # it stays in its line
    head = f"#!/bin/sh\n# Runs the job {plan.job} of {user} with kedge: kedge show {place.run}\n"
    return "\n".join((head + next(groups), *groups, *batch_body.body(place.folder, place.bundle, options)))


def step(plan: Plan, role: str, options: SlurmOptions, place: SlurmPlace) -> tuple[str, ...]:
    """The command line of the srun that starts the agents of a role's tasks, one task each. What they read on stdin is
    that of srun. `place.attempt` is in the name of its log."""
    found = plan.role(role)
    folders = (place.folder, place.bundle)
    log = f"{place.folder}/{_CLUSTER}/step-{place.attempt}-{role}.log"
    return (
        f"{options.commands}/srun" if options.commands else "srun",
        *_component(plan, found),
        f"--job-name={role}",
        # A step may have fewer nodes than the allocation; with the usual number of them it could wait for ever.
        f"--nodes=1-{found.instances}",
        *resources.of_step(plan, found, options),
        "--exact", "--kill-on-bad-exit=0", "--wait=0", "--no-kill", "--mpi=none", "--export=ALL", "--input=all",
        f"--output={_pattern(log)}",
        "--open-mode=append",
        *containers.srun_options(plan, found, options, folders),
        *containers.program(plan, found, options, folders),
        f"{place.bundle}/agent", "--index-variable", _INDEX_VARIABLE, "--node-variable", _NODE_VARIABLE,
    )  # fmt: skip


def end_tasks(
    plan: Plan, role: str, options: SlurmOptions, place: SlurmPlace, step: str, tasks: Mapping[int, str]
) -> tuple[str, ...]:
    """The command line of the srun that ends these tasks of a step, each on its node, without the others. What it says
    is in the step's log."""
    nodes = sorted({*tasks.values()})
    return (
        f"{options.commands}/srun" if options.commands else "srun",
        *_component(plan, plan.role(role)),
        "--job-name=end", "--overlap", f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}",
        f"--ntasks={len(nodes)}", "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=0", "--gres=none", "--mpi=none",
        "--export=ALL", "--quiet", "--input=none",
        f"--output={_pattern(f'{place.folder}/{_CLUSTER}/step-{place.attempt}-{role}.log')}", "--open-mode=append",
        f"{place.bundle}/agent", "--end", f"{_STEP_VARIABLE}={step.rpartition('.')[2]}",
        f"{_INDEX_VARIABLE}={','.join(map(str, sorted(tasks)))}", _JOB_VARIABLE,
    )  # fmt: skip


def _component(plan: Plan, role: RolePlan) -> Iterator[str]:
    if not resources.is_packed(plan):
        yield f"--het-group={plan.roles.index(role)}"


def _directives(plan: Plan, options: SlurmOptions, place: SlurmPlace) -> Iterator[tuple[str, ...]]:
    """The directives: those of the job, then those of each of its components."""
    yield tuple(map(quoted, _of_job(plan, options, place)))
    for number, roles in enumerate(resources.components(plan)):
        first = ("hetjob",) if number else ()
        yield (*first, *map(quoted, _of_component(roles, options)))


def _of_job(plan: Plan, options: SlurmOptions, place: SlurmPlace) -> Iterator[str]:
    yield f"--job-name={plan.job}"
    yield f"--comment=kedge {place.run}"
    yield f"--chdir={place.folder}"
    yield f"--output={_pattern(f'{place.folder}/{_CLUSTER}/{_BATCH_LOG}')}"
    yield "--open-mode=append"
    yield "--export=ALL"
    yield "--no-kill"
    yield "--requeue" if options.requeue else "--no-requeue"
    yield f"--signal=B:USR2@{times.warning_sec(plan, options)}"
    if limit := times.allocation_sec(plan, options):
        yield f"--time={clock.text(limit)}"


def _of_component(roles: tuple[RolePlan, ...], options: SlurmOptions) -> Iterator[str]:
    for name in ("partition", "account", "qos", "constraint", "reservation"):
        if value := getattr(options, name):
            yield f"--{name}={value}"
    if options.exclusive:
        yield "--exclusive"
    yield from resources.of_component(roles, options)
    yield from options.sbatch


def quoted(option: str) -> str:
    """An option as sbatch reads it in a script: with quotes if it has to."""
    if not set(option) - _PLAIN:
        return option
    name, equals, value = option.partition("=")
    if not equals:
        return option  # a line of the site, which has its own quotes
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"'


def _pattern(path: str) -> str:
    """The path of a file as the pattern of a name."""
    return path.replace("%", "%%")


def _check_path(path: str) -> None:
    if "\\" in path or not path.isprintable():
        raise CannotRun(f"Slurm cannot use the path {path!r}: it has a backslash or a control character; use another")
