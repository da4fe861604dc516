"""The first steps of a job in its driver pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.engines.base import JobOutcome
from kedge.engines.kubernetes.in_driver import job
from kedge.engines.kubernetes.in_driver.driver_pod import this_driver
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.folder import Run


def run(plan: Plan, run: Run, secrets: Secrets, options: Mapping[str, Any]) -> JobOutcome:
    """Run the job to its end, in the driver pod of this process."""
    return job.run(plan, run, secrets, options, this_driver())
