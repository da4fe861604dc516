"""What one task of a job would receive."""

from __future__ import annotations

from kedge.contract import CODE_DIR, STORAGES_DIR, WORK_DIR, TaskSpec
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
        workdir=_workdir(plan, place, code),
        code=f"RUN/{CODE_DIR}/{code}" if code and not plan.shares_code else None,
        host="HOST",
        ports={label: [0] * count for label, count in resources.ports.items()},
        peers_file="RUN/attempt-0/peers.json",
        storages={mount.name: f"RUN/{STORAGES_DIR}/{mount.name}" for mount in plan.mounts},
        job_dir=None,  # such a spec may be run by hand, below `folder` alone
    )
    return task_spec(plan, role, index, placement)


def _workdir(plan: Plan, place: str, code: str | None) -> str:
    if code is None:
        return f"{place}/{WORK_DIR}"
    return f"{'RUN' if plan.shares_code else place}/{CODE_DIR}/{code}"
