"""The Job of the driver: one pod with the controller of the run."""

from __future__ import annotations

from kedge.engines.kubernetes.objects import labels, own_containers, pod_paths, scheduling
from kedge.engines.kubernetes.objects.labels import ObjectOwner, metadata
from kedge.engines.kubernetes.objects.names import RunNames
from kedge.engines.kubernetes.objects.task_volumes import mount
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.light.types import Any

HOSTNAME = "driver"
CONTAINER = "driver"
RUN, OUTPUTS, CODE = "run", "outputs", "code"  # its volumes with files of the run
RESTARTS = 1_000_000  # of the container, and of the pod where its node is gone: nothing of Kubernetes gives up
GONE_NODE_SEC = 30  # until the pod of a node that does not answer is replaced, instead of 300
GRACE_SEC = 60
_FIELDS = {
    "KEDGE_NAMESPACE": "metadata.namespace",
    "KEDGE_POD": "metadata.name",
    "KEDGE_POD_IP": "status.podIP",
    "KEDGE_POD_UID": "metadata.uid",
    pod_paths.NODE_VARIABLE: "spec.nodeName",
}
_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def driver_job(
    owner: ObjectOwner, options: KubernetesOptions, image: str, *, takes_code: bool = False
) -> dict[str, Any]:
    """The Job; `image` is the runtime's. Its Secret must exist before. With `takes_code` it has a volume for the code
    of the job, which is then sent to it."""
    name = RunNames(owner.name).driver
    head = metadata(owner, name, labels.DRIVER)
    if not (options.restricted or options.run_as_user):
        head["annotations"][labels.TASK_USERS] = labels.ANY_USER
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": head,
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": RESTARTS,
            "template": {
                "metadata": {"labels": head["labels"], "annotations": {**head["annotations"], **_texts()}},
                "spec": _spec(owner, options, image, takes_code),
            },
        },
    }


def _texts() -> dict[str, str]:
    """A driver may move to another node, but each move interrupts what it decides."""
    return {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def _spec(owner: ObjectOwner, options: KubernetesOptions, image: str, takes_code: bool) -> dict[str, Any]:
    secrets = {"imagePullSecrets": [{"name": name} for name in options.pull_secrets]} if options.pull_secrets else {}
    return {
        "restartPolicy": "OnFailure",
        "serviceAccountName": options.service_account,
        "enableServiceLinks": False,
        "hostname": HOSTNAME,
        "subdomain": RunNames(owner.name).service,
        "terminationGracePeriodSeconds": GRACE_SEC,
        **_placing(options),
        "securityContext": _pod_security(options),
        **secrets,
        "containers": [_container(owner, options, image, takes_code)],
        "volumes": [
            {"name": "seed", "secret": {"secretName": RunNames(owner.name).driver_secret, "defaultMode": 0o440}},
            {"name": RUN, **_claim(options.run_volume)},
            *([{"name": OUTPUTS, **_claim(options.outputs_volume)}] if options.outputs_volume else ()),
            *([{"name": CODE, **_claim(options.code_volume)}] if takes_code else ()),
        ],
    }


def _placing(options: KubernetesOptions) -> dict[str, Any]:
    """The driver may be where tasks may, but has node labels of its own: it needs no GPU. It is in no queue: it must
    run to ask for pods and to say what they wait for, and two parts of one job in a queue could wait for each other."""
    gone = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": GONE_NODE_SEC}
        for key in _NODE_TAINTS
    ]
    selector = {"nodeSelector": options.driver_node_labels} if options.driver_node_labels else {}
    priority = {"priorityClassName": options.priority_class} if options.priority_class else {}
    return selector | priority | {"tolerations": [*gone, *map(scheduling.toleration, options.tolerations)]}


def _claim(name: str | None) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}} if name else {"emptyDir": {}}


def _pod_security(options: KubernetesOptions) -> dict[str, Any]:
    """The files of the Secret, and volumes of the site that can be given to a group, belong to the driver's."""
    return {
        "runAsNonRoot": True,
        "fsGroup": own_containers.own_group(options),
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _container(owner: ObjectOwner, options: KubernetesOptions, image: str, takes_code: bool) -> dict[str, Any]:
    amounts = {"cpu": options.driver_cpu, "memory": options.driver_memory}
    resources = {"requests": amounts, "limits": dict(amounts)}
    command = (*pod_paths.DRIVER_COMMAND, f"{pod_paths.JOBS}/{owner.run_id}")
    return own_containers.own_container(CONTAINER, image, command, options, resources) | {
        "env": [{"name": name, "valueFrom": own_containers.field(path)} for name, path in _FIELDS.items()],
        "volumeMounts": [
            mount("seed", pod_paths.SEED_FOLDER, read_only=True),
            mount(RUN, pod_paths.JOBS),
            *([mount(OUTPUTS, pod_paths.OUTPUTS_VOLUME)] if options.outputs_volume else ()),
            *([mount(CODE, pod_paths.CODE_VOLUME)] if takes_code else ()),
        ],
    }
