"""The objects of a job, for `kedge plan`, with placeholders for what is known only when it is submitted."""

from __future__ import annotations

from typing import Any

from kedge.engines.base import EngineRequest, Task
from kedge.engines.kubernetes import checks, manifest_text
from kedge.engines.kubernetes.objects import driver_job, run_objects, task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.plan.model import Plan


def requests(plan: Plan, options: KubernetesOptions, task: Task | None) -> tuple[EngineRequest, ...]:
    """The objects of the run and the pod of each role's first task, or the pod of one task. CannotRun."""
    place = checks.example_place(plan, options)
    tasks = [task] if task else [Task(role.name, 0) for role in plan.roles]
    pods = [_request(str(each), task_pod.task_pod(plan, each, 0, 0, options, place)) for each in tasks]
    if task:
        return tuple(pods)
    owner = place.owner
    own: dict[str, dict[str, Any]] = {
        "anchor": run_objects.anchor(owner._replace(uid=""), plan),
        "service": run_objects.service(owner),
        "driver's secret": run_objects.driver_secret(owner, b""),
        "driver's address": run_objects.address(owner, {}),
        "driver": driver_job.driver_job(owner, options, place.image),
    }
    return (*(_request(name, obj) for name, obj in own.items()), *pods)


def _request(name: str, obj: dict[str, Any]) -> EngineRequest:
    """As a document of YAML; its title is a comment of it."""
    namespace = {"metadata": dict(obj["metadata"])}
    return EngineRequest(name, obj, manifest_text.text(obj | namespace), title=f"# {obj['kind']}: {name}")
