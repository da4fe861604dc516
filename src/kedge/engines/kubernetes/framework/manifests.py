"""The objects of a job for `kedge plan`: YAML that `kubectl apply` accepts."""

from __future__ import annotations

from types import MappingProxyType

from kedge.contract import SecretRef
from kedge.engines.base import EngineRequest, Task
from kedge.engines.kubernetes import manifest_text
from kedge.engines.kubernetes.framework import job_objects
from kedge.engines.kubernetes.framework.job_objects import FrameworkOrder
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets

_CONFIG = "THE-JOB-FILE"
_VALUE = "SECRET"


def requests(plan: Plan, options: KubernetesOptions, task: Task | None) -> tuple[EngineRequest, ...]:
    """The secrets, the priority class and the Framework of the job; of one task, the pod of its role. CannotRun."""
    found = job_objects.made(_order(plan, options))
    if task is not None:
        role = next(n for n, each in enumerate(plan.roles) if each.name == task.role)
        pod = {"apiVersion": "v1", "kind": "Pod", **found.framework["spec"]["taskRoles"][role]["task"]["pod"]}
        return (_request(f"the pods of {task.role}, which FrameworkController makes", pod),)
    titles = {"Secret": "values of secrets", "PriorityClass": "the place of the job among others"}
    beside = [_request(f"{titles[each['kind']]} ({each['metadata']['name']})", each) for each in found.addons]
    return (*beside, _request("the Framework, with the job file as its annotation config", found.framework))


def _request(title: str, obj: dict[str, object]) -> EngineRequest:
    return EngineRequest(title, {}, manifest_text.text(obj), f"# {title}")


def _order(plan: Plan, options: KubernetesOptions) -> FrameworkOrder:
    name, namespace = plan.environment["FC_FRAMEWORK_NAME"], options.namespace or "default"
    return FrameworkOrder(
        plan, options, namespace, name, "RUN-ID", _CONFIG, MappingProxyType({}), _placeholders(plan), 0
    )


def _placeholders(plan: Plan) -> Secrets:
    """A value for each secret that the plan names."""
    texts = [text for role in plan.roles for text in (role.command, *(role.auth or {}).values())]
    values = {part.key: _VALUE for text in texts for part in text if isinstance(part, SecretRef)}
    return Secrets(values, values)
