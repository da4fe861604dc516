"""An engine in a package of its own: tasks run on this machine, and leave the processor to others."""

from __future__ import annotations

import os

from kedge.engines.base import EngineOption, JobOutcome, Note
from kedge.engines.local.engine import LocalEngine
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


class ExampleEngine(LocalEngine):
    """The local engine with one more option: `nice`, by how much the priority of all tasks is lowered."""

    name = "example"
    accepts = (
        *LocalEngine.accepts,
        EngineOption("nice", int, "Lower the priority of tasks.", metavar="N", least=0),
    )

    def __init__(self, allow_fewer_gpus: bool = False, nice: int = 0) -> None:
        super().__init__(allow_fewer_gpus)
        self._nice = nice
        self.options = {**self.options, "nice": nice}

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        return (*super().notes(plan), Note(f"all tasks run with niceness {self._nice}"))

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        os.nice(self._nice)  # this process is the controller of this one run; its tasks inherit the niceness
        return super().run(plan, run, secrets)
