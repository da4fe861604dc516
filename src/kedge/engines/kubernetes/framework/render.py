"""From a plan to the Framework that FrameworkController runs, as OpenPAI's REST server makes it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kedge.contract import converted_role
from kedge.engines.kubernetes.framework import hived, pod_template
from kedge.engines.kubernetes.framework.addons import AddonNames
from kedge.engines.kubernetes.framework.hived import HivedCells
from kedge.engines.kubernetes.framework.site import FrameworkSite
from kedge.errors import CannotRun
from kedge.plan.model import Plan, RolePlan

VERSION = "frameworkcontroller.microsoft.com/v1"
_ANNOTATIONS = 256 << 10  # bytes in all; the API server refuses more
_MOST_TASKS = 10_000  # of a role
_NO_EXTRAS: Mapping[str, Any] = MappingProxyType({})


def framework(
    plan: Plan, config: str, site: FrameworkSite, addons: AddonNames, extras: Mapping[str, Any] = _NO_EXTRAS
) -> dict[str, Any]:
    """The Framework of a job; `config` is the text of the job file with its secrets masked, `addons` are the objects
    beside it, and `extras` are those of the job file. CannotRun: it is too large for Kubernetes."""
    _check(plan, config)
    cells = hived.cells(plan, extras, site.hived) if site.hived else {}
    name = addons.framework
    return {
        "apiVersion": VERSION,
        "kind": "Framework",
        "metadata": {
            "name": name,
            "namespace": site.namespace,
            "labels": {"userName": plan.user, "virtualCluster": plan.virtual_cluster},
            "annotations": {
                "jobName": plan.job,
                "logPathInfix": name,
                "config": config,
                "totalGpuNumber": str(plan.gpu_count),
            },
        },
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": plan.retry.job},
            "taskRoles": [_role(plan, role, site, addons, cells.get(role.name)) for role in plan.roles],
        },
    }


def _role(
    plan: Plan, role: RolePlan, site: FrameworkSite, addons: AddonNames, cells: HivedCells | None
) -> dict[str, Any]:
    retries = {"fancyRetryPolicy": not plan.gang, "maxRetryCount": 0 if plan.gang else role.task_retry_count}
    return {
        "name": converted_role(role.name),
        "taskNumber": role.instances,
        "frameworkAttemptCompletionPolicy": {
            "minFailedTaskCount": role.completion.min_failed or 1,
            "minSucceededTaskCount": role.completion.min_succeeded or role.instances,
        },
        "task": {
            "retryPolicy": retries,
            "podGracefulDeletionTimeoutSec": site.deletion_sec,
            "pod": pod_template.of(plan, role, site, addons, cells),
        },
    }


def _check(plan: Plan, config: str) -> None:
    for role in plan.roles:
        if role.instances > _MOST_TASKS:
            raise CannotRun(f"FrameworkController runs at most {_MOST_TASKS} tasks of a role; {role.name} has more")
    if (size := len(config.encode())) > _ANNOTATIONS - 1024:
        raise CannotRun(
            f"the job file has {size >> 10} KiB, and a Framework holds at most {_ANNOTATIONS >> 10} KiB "
            "of it: move long scripts into files of the code or of a prerequisite"
        )
