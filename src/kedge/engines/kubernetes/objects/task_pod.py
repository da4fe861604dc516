"""The pod of a task attempt: the init container `prepare`, the user's image in `app`, and the agent beside it."""

from __future__ import annotations

import math

from kedge.engines.base import Task, TaskAttempt
from kedge.engines.kubernetes.objects import (
    labels,
    own_containers,
    pod_patch,
    pod_paths,
    pull_secret,
    scheduling,
    task_security,
    task_volumes,
)
from kedge.engines.kubernetes.objects.labels import metadata
from kedge.engines.kubernetes.objects.names import RunNames, hostname, role_name
from kedge.engines.kubernetes.objects.pod_place import PodPlace
from kedge.engines.kubernetes.objects.task_volumes import PodVolumes
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun
from kedge.image_names import without_tag
from kedge.light.types import Any
from kedge.link.launch import AgentOrders
from kedge.plan.model import Plan, RolePlan

PREPARE, APP, AGENT = "prepare", "app", "agent"
TERMINATION_LOG = "/tmp/pai-termination-log"  # noqa: S108  (OpenPAI's terminationMessagePath)
AGENT_CPU, AGENT_MEMORY_MB = 0.25, 128
END_SEC = 90  # after the grace period of a task: for its hooks, and for the agent to send the rest of the logs
_OWN_IMAGE = "id:"  # begins the pin of an image that is in no registry


def task_pod(
    plan: Plan, task: Task, attempt: int, task_attempt: int, options: KubernetesOptions, place: PodPlace
) -> dict[str, Any]:
    """The pod of a task attempt. CannotRun: this cluster cannot run it as the job file wants, or the site's patch for
    pods does not fit."""
    name = place.owner.name
    of_task = TaskAttempt(task, attempt, task_attempt)
    known = labels.of_task(name, role_name(task.role), task.task_index, attempt, task_attempt)
    head = metadata(
        place.owner, RunNames(name).pod(attempt, *task, task_attempt), labels.TASK,
        known | scheduling.queue_labels(plan, name, attempt, options),
    )  # fmt: skip
    head["annotations"] |= {
        labels.ROLE: task.role,
        **scheduling.service_texts(),
        **task_security.annotations_of(options),
        **scheduling.queue_annotations(plan, options),
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": _spec(plan, of_task, options, place)}
    return pod_patch.patched(pod, options)


def _spec(plan: Plan, attempt: TaskAttempt, options: KubernetesOptions, place: PodPlace) -> dict[str, Any]:
    role = plan.role(attempt.task.role)
    volumes = task_volumes.of(plan, attempt, options, place)
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": hostname(*attempt.task),
        "subdomain": RunNames(place.owner.name).service,
        "terminationGracePeriodSeconds": math.ceil(role.stop.grace_sec) + END_SEC,
        **task_security.of_pod(options),
        **scheduling.placing(options),
        **_pull_secrets(plan, options, place),
        "initContainers": [_prepare(plan, role, volumes, options, place)],
        "containers": [_app(role, volumes, options), _agent(attempt, volumes, options, place)],
        "volumes": volumes.volumes,
    }


def _pull_secrets(plan: Plan, options: KubernetesOptions, place: PodPlace) -> dict[str, Any]:
    names = [*options.pull_secrets]
    if pull_secret.is_needed(plan):
        names.append(RunNames(place.owner.name).pull_secret)
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def _prepare(
    plan: Plan, role: RolePlan, volumes: PodVolumes, options: KubernetesOptions, place: PodPlace
) -> dict[str, Any]:
    """It may take what the task will have, since it ends before the task starts."""
    is_here = role.code and (place.code_pieces or place.code_on_volume)  # otherwise the agent fetches it
    code = (pod_paths.CODE_OPTION, str(role.code)) if is_here else ()
    shared = (pod_paths.SHARED_CODE_OPTION,) if is_here and plan.shares_code else ()
    command = (*pod_paths.PREPARE_COMMAND, *code, *shared)
    wanted = role.resources
    resources = own_containers.fixed(max(wanted.cpu, AGENT_CPU), max(wanted.memory_mb, AGENT_MEMORY_MB))
    container = own_containers.own_container(PREPARE, place.image, command, options, resources)
    return container | {"volumeMounts": volumes.prepare}


def _app(role: RolePlan, volumes: PodVolumes, options: KubernetesOptions) -> dict[str, Any]:
    """The user's image, as it is. Its variables are set by the supervisor, from the task's own ones."""
    wanted = role.resources
    devices = ({options.gpu: wanted.gpu} if wanted.gpu else {}) | ({options.rdma: 1} if role.infiniband else {})
    hidden = [] if wanted.gpu else [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]  # CUDA images ask for all
    return {
        "name": APP,
        "image": image(role),
        "command": list(pod_paths.SUPERVISOR_COMMAND),
        **({"env": hidden} if hidden else {}),
        "resources": own_containers.fixed(wanted.cpu, wanted.memory_mb, devices),
        "securityContext": task_security.of_task(role, options),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": volumes.app,
    }


def image(role: RolePlan) -> str:
    """The image of a role: the one that the lock file names, if there is one. CannotRun: that is in no registry."""
    if role.pin is None:
        return role.image
    if role.pin.startswith(_OWN_IMAGE):
        raise CannotRun(
            f"the image {role.image} is locked to one that is in no registry ({role.pin}), so no node can pull it: "
            f"push it to a registry, and lock it again with --update-lock {role.image}"
        )
    return f"{without_tag(role.image)}@{role.pin}"


def _agent(attempt: TaskAttempt, volumes: PodVolumes, options: KubernetesOptions, place: PodPlace) -> dict[str, Any]:
    task = attempt.task
    orders = AgentOrders(
        addresses=list(place.addresses), port=place.port, certificate=place.certificate, run=place.owner.run_id,
        address_file=pod_paths.ADDRESS_FILE, attempt=attempt.job_attempt, role=task.role, tokens=[],
        mirrored=place.mirrored, task_attempt=attempt.task_attempt,
    )  # fmt: skip
    command = (*pod_paths.AGENT_COMMAND, str(task.task_index))
    resources = own_containers.fixed(AGENT_CPU, AGENT_MEMORY_MB)
    return own_containers.own_container(AGENT, place.image, command, options, resources) | {
        "env": [
            {"name": pod_paths.NODE_VARIABLE, "valueFrom": own_containers.field("spec.nodeName")},
            {"name": pod_paths.ORDERS_VARIABLE, "value": own_containers.literal(orders.line().decode().strip())},
        ],
        "volumeMounts": volumes.agent,
    }
