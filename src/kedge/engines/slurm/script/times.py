"""How long an allocation is asked for, and when Slurm warns before its end. Pure."""

from __future__ import annotations

import math

from kedge.engines.slurm.options import SlurmOptions
from kedge.plan.model import Plan

_MARGIN_SEC = 120.0  # to start the controller, and to write reports after the last task
# Slurm looks at time limits once a minute, so a warning may come a minute early.
_EARLY_SEC = 60.0
_LONGEST_WARNING_SEC = 65535  # what --signal accepts


def allocation_sec(plan: Plan, options: SlurmOptions) -> float | None:
    """The time limit of the allocation; None for the partition's default. Without a wish of the user it follows from
    the job's own limit, so that kedge's comes first. More than that is not asked for."""
    if plan.time_limit is None:
        return options.time_sec
    needed = plan.time_limit.limit_sec + _warning(plan) + _grace(plan) + _MARGIN_SEC + _EARLY_SEC
    return min(needed, options.time_sec) if options.time_sec else needed


def warning_sec(plan: Plan, options: SlurmOptions) -> int:
    """How long before the end of the allocation Slurm warns: enough for the hooks before a stop and for the grace of
    every task, but at most half of the allocation."""
    wanted = _warning(plan) + _grace(plan) + _EARLY_SEC
    total = allocation_sec(plan, options)
    return math.ceil(min(wanted, total / 2 if total else wanted, _LONGEST_WARNING_SEC))


def _warning(plan: Plan) -> float:
    return max((role.warn_before_sec or 0.0 for role in plan.roles), default=0.0)


def _grace(plan: Plan) -> float:
    return max((role.stop.grace_sec for role in plan.roles), default=0.0)
