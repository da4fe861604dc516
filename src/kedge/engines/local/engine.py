"""The local engine: runs every task as processes on this machine, in the user's environment and with their tools."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from kedge.engines.base import EngineRequest, ExecRequest, JobOutcome, Note, Task, TaskAttempt
from kedge.engines.local.options import ACCEPTS
from kedge.engines.machine import limits, linked_storages, secret_files
from kedge.engines.machine.resources import gpus_wanted, too_few_gpus
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


class LocalEngine:
    """`allow_fewer_gpus`: if there are too few GPUs, start with those that there are instead of failing."""

    name = "local"
    accepts: ClassVar = ACCEPTS
    in_cluster: ClassVar = False

    def __init__(self, allow_fewer_gpus: bool = False) -> None:
        self._allow_fewer_gpus = allow_fewer_gpus
        self.options = {"allow_fewer_gpus": allow_fewer_gpus}

    @classmethod
    def load(cls) -> None:
        _job()

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        notes = [Note("the local engine uses no image: tasks run in your own environment")]
        if self._allow_fewer_gpus and (fewer := too_few_gpus(plan)):
            notes.append(Note(fewer))
        notes += map(Note, linked_storages.notes(plan))
        if plan.code and plan.shares_code and os.geteuid() == 0:
            notes.append(Note("tasks can change the read-only code here: they run as root"))
        return (*notes, _not_enforced(plan))

    def check(self, plan: Plan) -> None:
        if not sys.platform.startswith("linux"):
            raise CannotRun("the local engine needs Linux; on other systems run the job with --engine container")
        limits.check(tasks=plan.task_count, ports=plan.port_count)
        gpus_wanted(plan, self._allow_fewer_gpus)
        linked_storages.check(plan)

    def requests(self, plan: Plan, task: Task | None = None) -> tuple[EngineRequest, ...]:
        return ()

    def secrets_dir(self, run: Run) -> str:
        return secret_files.location(run)

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        outcome: JobOutcome = _job().run(plan, run, secrets, self._allow_fewer_gpus)
        return outcome

    def submit(self, run: Run, plan: Plan, say: Callable[[str], object]) -> None:
        raise NotImplementedError("this engine's controller runs on the submitter's machine")

    def stop(self, run: Run, kill: bool) -> tuple[str, ...]:
        notes: tuple[str, ...] = _job().stop(run, kill)
        return notes

    def forward(self, run: Run, number: int) -> None:
        _job().forward(run, number)

    def suspended(self, run: Run) -> int | None:
        pid: int | None = _job().suspended(run)
        return pid

    def exec(self, run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
        code: int = importlib.import_module("kedge.engines.local.exec").run(run, attempt, request)
        return code

    def forget(self, run: Run) -> None:
        return


def _job() -> Any:
    """Loaded late: who looks at a plan, or submits it, runs nothing."""
    return importlib.import_module("kedge.engines.local.job")


def _not_enforced(plan: Plan) -> Note:
    requests = [f"{r.name} {r.resources.cpu} CPU, {r.resources.memory_mb} MiB" for r in plan.roles]
    shown = "; ".join((*requests[:4], "…") if len(requests) > 4 else requests)
    return Note(f"CPU and memory requests are not enforced here (per task: {shown})", in_summary=True)
