"""The command lines of a job's steps, and what their agents read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kedge.engines.slurm.options import SlurmOptions
from kedge.engines.slurm.script import render
from kedge.engines.slurm.script.render import SlurmPlace
from kedge.link.launch import AgentOrders
from kedge.plan.model import Plan
from kedge.runs.folder import Run


class StepCommands(NamedTuple):
    """The controller's `addresses`, its `port` and its `certificate` are what agents need to reach it."""

    plan: Plan
    options: SlurmOptions
    run: Run
    bundle: str
    addresses: Sequence[str]
    port: int
    certificate: str

    def start(self, attempt: int, role: str, without: Collection[str]) -> tuple[str, ...]:
        """The srun that starts the agents of a role in a job attempt, on none of the nodes `without`."""
        srun, *rest = render.step(self.plan, role, self.options, self._place(attempt))
        excluded = (f"--exclude={','.join(sorted(without))}",) if without else ()
        return (srun, "--verbose", *excluded, *rest)  # it then says which task is on which node

    def orders(self, attempt: int, role: str, tokens: Sequence[str]) -> bytes:
        """What these agents read; each has the token with its index."""
        return AgentOrders(
            addresses=[*self.addresses],
            port=self.port,
            certificate=self.certificate,
            run=self.run.id,
            address_file=str(self.run.cluster.address),
            attempt=attempt,
            role=role,
            tokens=[*tokens],
        ).line()

    def end_tasks(self, attempt: int, role: str, step: str, tasks: Mapping[int, str]) -> tuple[str, ...]:
        """The srun that ends these tasks of a step, each on its node, without the others."""
        return render.end_tasks(self.plan, role, self.options, self._place(attempt), step, tasks)

    def _place(self, attempt: int) -> SlurmPlace:
        return SlurmPlace(self.run.id, str(self.run.path), self.bundle, attempt)
