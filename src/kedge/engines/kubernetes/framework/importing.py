"""Makes run folders on this machine for Frameworks that another one has submitted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kedge.contract import converted_role
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.framework import job_config, job_objects
from kedge.engines.kubernetes.objects import labels

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")


class FoundFramework(NamedTuple):
    """A Framework of a run: `roles` are the numbers of tasks by the names of the job file, whose text is `config`."""

    run_id: str
    user: str
    job: str
    name: str
    uid: str
    created: str
    config: str
    roles: dict[str, int]
    priority: bool


def found(api: KubernetesApi) -> list[FoundFramework]:
    """Those in a namespace that kedge has submitted. ApiError."""
    each, _ = api.list("Framework", {labels.MANAGED_BY: labels.KEDGE, labels.COMPONENT: job_objects.FRAMEWORK})
    return [known for framework in each if (known := _read(framework))]


def _read(framework: Mapping[str, Any]) -> FoundFramework | None:
    """None: it is none of ours, or is being deleted."""
    head = framework["metadata"]
    texts = head.get("annotations") or {}
    run_id, user, job = (str(texts.get(key, "")) for key in (labels.RUN_ID, labels.USER, labels.JOB))
    if not _ID.fullmatch(run_id) or head["name"] != job_objects.name_of(user, run_id) or head.get("deletionTimestamp"):
        return None
    config, spec = str(texts.get("config", "")), framework.get("spec") or {}
    roles = _roles(config, spec)
    if roles is None:
        return None
    created = str(head.get("creationTimestamp", ""))
    return FoundFramework(
        run_id, user, job, head["name"], head["uid"], created, config, roles, _has_priority(spec, head["name"])
    )


def _roles(config: str, spec: Mapping[str, Any]) -> dict[str, int] | None:
    """The roles in the order of the job, which the Framework has, too; None: they do not belong together."""
    named = job_config.document(config).get("taskRoles")
    names = list(named) if isinstance(named, Mapping) else []
    made = [(role.get("name"), role.get("taskNumber")) for role in spec.get("taskRoles") or ()]
    if [converted_role(str(name)) for name in names] != [name for name, _ in made]:
        return None
    return {str(name): int(number) for name, (_, number) in zip(names, made, strict=True)}


def _has_priority(spec: Mapping[str, Any], name: str) -> bool:
    pods = [role["task"]["pod"].get("spec") or {} for role in spec.get("taskRoles") or ()]
    return any(pod.get("priorityClassName") == f"{name}-priority" for pod in pods)
