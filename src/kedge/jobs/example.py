"""What one task of a job would receive."""

from __future__ import annotations

from kedge.contract import JOB_DIR, WORK_DIR, TaskSpec
from kedge.plan.model import Plan
from kedge.plan.task import Placement, task_spec


def example_spec(plan: Plan, role: str, index: int) -> TaskSpec:
    """The spec of one task, with placeholders for the placement that an engine will choose."""
    place = f"RUN/attempt-0/{role}-{index}"
    resources, code = plan.role(role).resources, plan.role(role).code
    placement = Placement(
        job_id="RUN",
        job_attempt=0,
        task_attempt=0,
        uid="UID",
        folder=place,
        workdir=f"RUN/code/{code}" if code else f"{place}/{WORK_DIR}",
        host="HOST",
        ports={label: [0] * count for label, count in resources.ports.items()},
        peers_file="RUN/attempt-0/peers.json",
        job_dir=f"RUN/{JOB_DIR}",
    )
    return task_spec(plan, role, index, placement)
