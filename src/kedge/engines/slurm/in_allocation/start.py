"""The first steps of a job inside its allocation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kedge.engines.base import JobOutcome
from kedge.engines.slurm.commands import SlurmSite
from kedge.engines.slurm.in_allocation import allocation
from kedge.engines.slurm.in_allocation.allocation import TimeQuestion
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


def run(plan: Plan, run: Run, secrets: Secrets, options: Mapping[str, Any]) -> JobOutcome:
    """Run the job to its end, in the allocation of this process."""
    here, site = allocation.current(os.environ), SlurmSite.of(options)
    question = TimeQuestion(site, here)
    from kedge.engines.slurm.in_allocation import job  # while Slurm answers

    return job.run(plan, run, secrets, options, here, question)
