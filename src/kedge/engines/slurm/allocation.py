"""The allocation in which this controller runs, from the environment of its batch step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kedge.errors import CannotRun

_JOB, _RESTARTS, _HET_SIZE = "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_HET_SIZE"
_ENDLESS = frozenset({"UNLIMITED", "NOT_SET", "INVALID", ""})


class SlurmAllocation(NamedTuple):
    """`job` is Slurm's id of the job, for a heterogeneous one that of its first component. `restarts` is how often
    Slurm has queued the job again. `partition` is where it runs."""

    job: str
    restarts: int
    partition: str


def current(variables: Mapping[str, str]) -> SlurmAllocation:
    """The allocation of this process. CannotRun outside of one."""
    job = variables.get(_JOB, "")
    if not job.isdecimal():
        raise CannotRun(
            f"this controller is not in an allocation of Slurm: {_JOB} is not set; start the job with kedge run"
        )
    restarts = variables.get(_RESTARTS, "")
    partition = variables.get("SLURM_JOB_PARTITION") or variables.get("SLURM_JOB_PARTITION_HET_GROUP_0", "")
    return SlurmAllocation(job, int(restarts) if restarts.isdecimal() else 0, partition)


def seconds(text: str) -> float | None:
    """The seconds of a time as squeue writes it, [days-][hours:]minutes:seconds. None without a limit."""
    text = text.strip()
    if text in _ENDLESS:
        return None
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    total = 0
    for part in parts:
        total = 60 * total + part
    return float(86_400 * int(days or 0) + total)
