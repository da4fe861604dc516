"""The objects of a job, for `kedge plan`: YAML that `kubectl apply` accepts, with placeholders for what is known only
when it is submitted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kedge.engines.base import EngineRequest, Task
from kedge.engines.kubernetes import checks, manifest_text
from kedge.engines.kubernetes.objects import code_pieces, driver_job, network_policies, pull_secret, run_objects
from kedge.engines.kubernetes.objects.names import token_key
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.objects.task_pod import task_pod
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.plan.model import Plan

_Titled = tuple[str, dict[str, Any]]


def requests(plan: Plan, options: KubernetesOptions, task: Task | None) -> tuple[EngineRequest, ...]:
    """The objects of the run and the pod of each role's first task, or the pod of one task; all that is printed of them
    is one stream of YAML documents. CannotRun."""
    place = checks.example_place(plan, options)
    tasks = [task] if task else [Task(role.name, 0) for role in plan.roles]
    pods = [(f"the pod of {each}", task_pod(plan, each, 0, 0, options, place)) for each in tasks]
    shared = [] if task else _shared(plan, options, place)
    return tuple(EngineRequest(title, {}, manifest_text.text(obj), f"# {title}") for title, obj in (*shared, *pods))


def _shared(plan: Plan, options: KubernetesOptions, place: PodPlace) -> Iterator[_Titled]:
    """What a run has besides the pods of its tasks, in the order in which it is created."""
    owner = place.owner
    anchor = run_objects.anchor(owner._replace(uid=""), plan)
    yield "the anchor, which owns all other objects", anchor | {"data": {run_objects.PLAN_KEY: "THE-PLAN"}}
    yield "the names of the pods in DNS", run_objects.service(owner)
    for policy in network_policies.network_policies(owner, options):
        yield "who may reach whom", policy
    seed = run_objects.driver_secret(owner, b"")
    yield "what the driver needs: the plan, values of secrets, keys", _masked(seed, {run_objects.SEED_KEY: "SEED"})
    if pull_secret.is_needed(plan):
        auths = {registry: {"auth": "USER-AND-PASSWORD"} for registry in pull_secret.registries(plan)}
        logins = pull_secret.of_logins(owner, {})
        yield "the passwords of registries", _masked(logins, {pull_secret.KEY: json.dumps({"auths": auths})})
    if plan.code:
        yield "the code, in as many pieces as it needs", code_pieces.code_pieces(owner, b"CODE")[0]
    yield "the address of the driver, which the driver fills in", run_objects.address(owner, {})
    yield "the driver", driver_job.driver_job(owner, options, place.image)
    tokens = {token_key(role.name, 0): "TOKEN" for role in plan.roles}
    yield "the tokens of tasks, made by the driver", _masked(run_objects.tokens_secret(owner, 0, {}), tokens)


def _masked(secret: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """A Secret with placeholders for its values."""
    return {key: value for key, value in secret.items() if key != "data"} | {"stringData": values}
