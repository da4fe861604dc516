"""From a plan to the sbatch script and to the srun lines of its roles. Pure: no I/O, no clock, no environment."""

from __future__ import annotations

from typing import NamedTuple

from kedge.engines.slurm.options import SlurmOptions
from kedge.plan.model import Plan


class SlurmPlace(NamedTuple):
    """Where a job runs: the id and the folder of its run, and the bundle, all of them on the shared file system.
    `attempt` is the number of the job attempt, for the names of step logs."""

    run: str
    folder: str
    bundle: str
    attempt: int = 0


def script(plan: Plan, options: SlurmOptions, place: SlurmPlace) -> str:
    """The batch script of a job."""
    return f"#!/bin/sh\nexec '{place.bundle}/controller' '{place.folder}'\n"


def step(plan: Plan, role: str, options: SlurmOptions, place: SlurmPlace) -> tuple[str, ...]:
    """The command line of the srun that starts the agents of a role's tasks, one task each."""
    return ("srun", f"--ntasks={plan.role(role).instances}", f"{place.bundle}/agent")
