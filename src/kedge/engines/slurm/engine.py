"""The Slurm engine: runs the whole job, with its controller, inside one allocation of a cluster."""

from __future__ import annotations

import importlib
import os
import shlex
from collections.abc import Callable
from typing import Any, ClassVar

from kedge.engines.base import EngineRequest, ExecRequest, JobOutcome, Note, Task, TaskAttempt
from kedge.engines.slurm import checks, notes
from kedge.engines.slurm.options import ACCEPTS, SlurmOptions
from kedge.engines.slurm.script import render
from kedge.engines.slurm.script.render import SlurmPlace
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run

_EXAMPLE = SlurmPlace("RUN", "/RUN-FOLDER", "/BUNDLE")  # what `kedge plan` shows, since there is no run yet


class SlurmEngine:
    """The keywords are those of SlurmOptions."""

    name = "slurm"
    accepts: ClassVar = ACCEPTS
    in_cluster: ClassVar[bool] = True

    def __init__(self, **options: Any) -> None:
        self._options = SlurmOptions(**options)
        _ = self._options.port_range, self._options.time_sec  # InputError for wrong ones, before anything is submitted
        self.options = self._options._asdict()

    @classmethod
    def load(cls) -> None:
        return

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        return tuple(map(Note, notes.of(plan, self._options, os.environ)))

    def check(self, plan: Plan) -> None:
        notes.check_storages(plan, self._options)
        checks.check(plan, self._options)

    def requests(self, plan: Plan, task: Task | None = None) -> tuple[EngineRequest, ...]:
        roles = [role.name for role in plan.roles if task is None or role.name == task.role]
        text = render.script(plan, self._options, _EXAMPLE)
        batch = EngineRequest("job", {}, text, title="sbatch script") if task is None else None
        lines = (shlex.join(render.step(plan, role, self._options, _EXAMPLE)) for role in roles)
        steps = (EngineRequest(role, {}, line, f"step of {role}") for role, line in zip(roles, lines, strict=True))
        return (*([batch] if batch else []), *steps)

    def secrets_dir(self, run: Run) -> str:
        return str(run.path / "cluster")

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        start = importlib.import_module("kedge.engines.slurm.in_allocation.start")
        outcome: JobOutcome = start.run(plan, run, secrets, self.options)
        return outcome

    def submit(self, run: Run, plan: Plan, say: Callable[[str], object]) -> None:
        importlib.import_module("kedge.engines.slurm.submission").submit(run, plan, self._options, say)

    def stop(self, run: Run, kill: bool) -> tuple[str, ...]:
        for_user: tuple[str, ...] = _requests().stop(run, kill)
        return for_user

    def forward(self, run: Run, number: int) -> None:
        _requests().forward(run, number)

    def suspended(self, run: Run) -> int | None:
        return None

    def exec(self, run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
        code: int = importlib.import_module("kedge.engines.slurm.exec").run(run, attempt, request)
        return code

    def forget(self, run: Run) -> None:
        _requests().forget(run)


def _requests() -> Any:
    """Loaded late: most commands ask nothing of a running job."""
    return importlib.import_module("kedge.engines.slurm.requests")
