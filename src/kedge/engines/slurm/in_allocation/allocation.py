"""The allocation in which this controller runs, from the environment of its batch step, and the time that it has."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from kedge.contract import ALLOCATION_TIME_LIMIT, PARTITION_TIME_LIMIT, TaskTimeLimit, duration_text
from kedge.engines.slurm import clock
from kedge.engines.slurm.commands import SlurmSite
from kedge.errors import CannotRun
from kedge.plan.model import Plan

_JOB, _RESTARTS = "SLURM_JOB_ID", "SLURM_RESTART_COUNT"
_REPORTS_SEC = 20.0  # after the last task has ended
_PATIENCE_SEC = 10.0
_ANSWER_SEC = 0.2  # between looks for an answer
_NO_MORE_SEC = 2.0  # less additional time than this does not count: Slurm reports whole seconds


class SlurmAllocation(NamedTuple):
    """`job` is Slurm's id of the job, for a heterogeneous one that of its first component. `restarts` is how often
    Slurm has requeued the job. `partition` is where it runs, `node` where this process does."""

    job: str
    restarts: int
    partition: str
    node: str = ""


def current(variables: Mapping[str, str]) -> SlurmAllocation:
    """The allocation of this process. CannotRun outside of one."""
    job = variables.get(_JOB, "")
    if not job.isdecimal():
        raise CannotRun(
            f"this controller is not inside a Slurm allocation: {_JOB} is not set; start the job with kedge run"
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
                [site.program("squeue"), "--all", "--noheader", f"--jobs={here.job}", "--format=%L"],
                env=site.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True, text=True, errors="replace",
            )  # fmt: skip

    @property
    def is_ready(self) -> bool:
        """Whether `answer` does not wait."""
        late = time.monotonic() >= self._began + _PATIENCE_SEC
        return late or self._process is None or self._process.poll() is not None

    def answer(self) -> float | None:
        """Seconds from now; None without a limit, or if Slurm has not answered in time. Call it once."""
        if self._process is None:
            return None
        with self._process as process:
            try:
                said, _ = process.communicate(timeout=max(0.0, self._began + _PATIENCE_SEC - time.monotonic()))
                left = None if process.returncode else clock.seconds(said.strip().split("\n", 1)[0].strip())
            except subprocess.TimeoutExpired:
                process.kill()
                return None
        return None if left is None else left - (time.monotonic() - self._began)


class AllocationTime:
    """The time that the allocation has for tasks. Slurm may move its end: an administrator changes the limit, or
    suspends the job for a while. So Slurm is asked once more before the end counts.

    `ask` asks it. `limit` is how long tasks may run, for people. `reserve_sec` of the allocation are for their stop.
    `say` shows the user a note about more time."""

    def __init__(self, ask: Callable[[], TimeQuestion], limit: TaskTimeLimit, reserve_sec: float) -> None:
        self.limit = limit
        self.say: Callable[[str], object] = lambda text: None
        self._ask, self._reserve_sec = ask, reserve_sec
        self._began = time.monotonic()
        self._end = self._began + limit.limit_sec
        self._question: TimeQuestion | None = None

    @property
    def due(self) -> float:
        """When `is_over` must be asked again, by time.monotonic()."""
        return time.monotonic() + _ANSWER_SEC if self._question else self._end

    def look(self) -> None:
        """Ask Slurm for the end of the allocation now."""
        self._question = self._question or self._ask()

    def is_over(self) -> bool:
        """Whether tasks must stop now. Never waits. If Slurm does not answer, its last answer counts."""
        if self._question and self._question.is_ready:
            return self._has_passed(self._question)
        if self._end <= time.monotonic():
            self.look()
        return False

    def _has_passed(self, question: TimeQuestion) -> bool:
        self._question = None
        now, before = time.monotonic(), self._end
        if (left := question.answer()) is not None:
            self._end = now + left - self._reserve_sec
            self.limit = self.limit._replace(limit_sec=float(round(self._end - self._began)))
        if self._end > now + _NO_MORE_SEC:
            if now >= before:
                more = duration_text(round(self._end - now))
                self.say(f"the end of the allocation has changed: tasks have another {more}")
            return False
        self._end = math.inf
        return True


def time_for_tasks(
    ask: Callable[[], TimeQuestion], first: TimeQuestion, plan: Plan, asked: bool
) -> AllocationTime | None:
    """The time that the allocation has for tasks, from now: they and their controller need the rest of it to stop. None
    if the allocation has no end, or Slurm does not say. `first` is a question that `ask` has asked before; `asked`: the
    user has set the time of the allocation."""
    if (left := first.answer()) is None:
        return None
    needed = max((role.stop.grace_sec for role in plan.roles), default=0.0) + _REPORTS_SEC
    key, reserve = ALLOCATION_TIME_LIMIT if asked else PARTITION_TIME_LIMIT, min(needed, left / 2)
    return AllocationTime(ask, TaskTimeLimit(key, float(int(left - reserve))), reserve)
