"""The allocation in which this controller runs, from the environment of its batch step."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from kedge.contract import ALLOCATION_TIME_LIMIT, PARTITION_TIME_LIMIT, TaskTimeLimit
from kedge.engines.slurm import clock
from kedge.engines.slurm.commands import SlurmSite
from kedge.errors import CannotRun
from kedge.plan.model import Plan

_JOB, _RESTARTS = "SLURM_JOB_ID", "SLURM_RESTART_COUNT"
_REPORTS_SEC = 20.0  # after the last task has ended
_PATIENCE_SEC = 10.0


class SlurmAllocation(NamedTuple):
    """`job` is Slurm's id of the job, for a heterogeneous one that of its first component. `restarts` is how often
    Slurm has queued the job again. `partition` is where it runs, `node` where this process does."""

    job: str
    restarts: int
    partition: str
    node: str = ""


def current(variables: Mapping[str, str]) -> SlurmAllocation:
    """The allocation of this process. CannotRun outside of one."""
    job = variables.get(_JOB, "")
    if not job.isdecimal():
        raise CannotRun(
            f"this controller is not in an allocation of Slurm: {_JOB} is not set; start the job with kedge run"
        )
    restarts = variables.get(_RESTARTS, "")
    partition = variables.get("SLURM_JOB_PARTITION") or variables.get("SLURM_JOB_PARTITION_HET_GROUP_0", "")
    number = int(restarts) if restarts.isdecimal() else 0
    return SlurmAllocation(job, number, partition, variables.get("SLURMD_NODENAME", ""))


class TimeQuestion:
    """Asks Slurm for the time that the allocation still has. It does not wait before `answer`: squeue takes as long as
    much of what the controller does at its start."""

    def __init__(self, site: SlurmSite, here: SlurmAllocation) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._began = time.monotonic()
        with suppress(OSError):
            self._process = subprocess.Popen(
                [site.program("squeue"), "--noheader", f"--jobs={here.job}", "--format=%L"], env=site.environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                text=True, errors="replace",
            )  # fmt: skip

    def answer(self) -> float | None:
        """Seconds from now; None without a limit, or if Slurm has not said it in time. Ask once."""
        if self._process is None:
            return None
        with self._process as process:
            try:
                said, _ = process.communicate(timeout=_PATIENCE_SEC)
                left = None if process.returncode else clock.seconds(said.strip().split("\n", 1)[0].strip())
            except subprocess.TimeoutExpired:
                process.kill()
                return None
        return None if left is None else left - (time.monotonic() - self._began)


def time_limit(question: TimeQuestion, plan: Plan, asked: bool) -> TaskTimeLimit | None:
    """The limit that the end of the allocation is for the tasks, from now: they and their controller need the rest of
    it to stop. None if the allocation has no end, or Slurm does not say. `asked`: the user has set its time."""
    if (left := question.answer()) is None:
        return None
    needed = max((role.stop.grace_sec for role in plan.roles), default=0.0) + _REPORTS_SEC
    key = ALLOCATION_TIME_LIMIT if asked else PARTITION_TIME_LIMIT
    return TaskTimeLimit(key, left - min(needed, left / 2))
