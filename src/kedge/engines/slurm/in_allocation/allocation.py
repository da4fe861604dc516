"""The allocation in which this controller runs, from the environment of its batch step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kedge.contract import ALLOCATION_TIME_LIMIT, PARTITION_TIME_LIMIT, TaskTimeLimit
from kedge.engines.slurm import commands
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.errors import CannotRun
from kedge.plan.model import Plan

_JOB, _RESTARTS, _HET_SIZE = "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_HET_SIZE"
_REPORTS_SEC = 20.0  # after the last task has ended
_PATIENCE_SEC = 10.0
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


def time_limit(site: SlurmSite, here: SlurmAllocation, plan: Plan, asked: bool) -> TaskTimeLimit | None:
    """The limit that the end of the allocation is for the tasks, from now: they and their controller need the rest of
    it to stop. None if the allocation has no end, or Slurm does not say. `asked`: the user has set its time."""
    try:
        said = commands.run(
            site, "squeue", "--noheader", f"--jobs={here.job}", "--format=%L", patience_sec=_PATIENCE_SEC
        )
        left = seconds(said.strip().split("\n", 1)[0])
    except (SlurmError, ValueError):
        return None
    if left is None:
        return None
    needed = max((role.stop.grace_sec for role in plan.roles), default=0.0) + _REPORTS_SEC
    key = ALLOCATION_TIME_LIMIT if asked else PARTITION_TIME_LIMIT
    return TaskTimeLimit(key, left - min(needed, left / 2))
