"""The options of the Kubernetes engine: those of a user, and those that only the site sets."""

from __future__ import annotations

from typing import Any, NamedTuple

from kedge.engines.base import LEAST_UNREACHABLE_SEC, EngineOption
from kedge.spec.units import DURATION, NOT_A_DURATION, seconds

GROUP = "kubernetes"
SERVICE_ACCOUNT = "kedge"
_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_NO_NAME = "is not the name of an object: lower case letters, digits and dashes"
_CONTEXT = r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"
_NO_CONTEXT = "is not the name of a context"
_PATH = r"^[^\x00-\x1f\x7f]+$"
_NO_PATH = "is not a path"
_FOLDER = r"^/[^\x00-\x1f\x7f]*$"
_NO_FOLDER = "must be an absolute path"
_PATCH = r"^[/{][^\x00-\x1f\x7f]*$"  # in the engine, its content
_NO_PATCH = "is not an absolute path"
_LABEL = r"^([a-zA-Z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?=([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$"
_LABELS = f"{_LABEL[:-1]}(,{_LABEL[1:-1]})*$"
_NO_LABELS = "is not a label with its value, such as gpu-type=a100, or several with commas between them"
_RESOURCE = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
_NO_RESOURCE = "is not the name of a resource, such as nvidia.com/gpu"
_TOLERATION = (
    r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?(=[A-Za-z0-9._-]*)?(:(NoSchedule|PreferNoSchedule|NoExecute))?$"
)
_NO_TOLERATION = "is not a taint to tolerate: KEY, KEY=VALUE or either with :NoSchedule, :PreferNoSchedule, :NoExecute"
_IMAGE = r"^[\w.-]+(:\d+)?(/[\w./-]+)?(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$"
_NO_IMAGE = "is not the name of an image"
_QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|[kMGT]i?)?$"
_NO_QUANTITY = "is not a quantity of Kubernetes, such as 500m or 512Mi"
INGRESS, BOTH = "ingress", "both"  # values of `network_policy`
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
DRIVER, FRAMEWORK = "driver", "framework"
CONTROLLERS = (DRIVER, FRAMEWORK)  # what controls a job in the cluster
FRAMEWORK_ACCOUNT = "runtime-account"


def _text(name: str, text: str, metavar: str, pattern: str, mismatch: str) -> EngineOption:
    return EngineOption(name, str, text, metavar=metavar, pattern=pattern, mismatch=mismatch, group=GROUP)


def _of_site(name: str, kind: Any, text: str, pattern: str = "", mismatch: str = "", **more: Any) -> EngineOption:
    return EngineOption(name, kind, text, pattern=pattern, mismatch=mismatch, group=GROUP, site_only=True, **more)


def _time(name: str, text: str, default: str, **more: Any) -> EngineOption:
    return _of_site(name, str, text, DURATION, NOT_A_DURATION, default=default, **more)


ACCEPTS = (
    _text("kubeconfig", "The kubeconfig file, instead of those of `KUBECONFIG` or `~/.kube/config`.", "FILE", _PATH,
          _NO_PATH)._replace(not_in_job=True),
    _text("context", "The context of the kubeconfig file, instead of the current one.", "NAME", _CONTEXT, _NO_CONTEXT)
    ._replace(not_in_job=True),
    _text("namespace", "The namespace, instead of that of the context.", "NAME", _NAME, _NO_NAME),
    EngineOption(
        "controller", str, "What controls the job in the cluster: kedge's driver, or the site's FrameworkController.",
        metavar="NAME", choices=CONTROLLERS, default=DRIVER, group=GROUP, alone=True,
    ),
    _text("queue", "The queue (Kueue's LocalQueue) that the job waits in. Otherwise the one of the namespace that "
          "has the name of the job's `defaults.virtualCluster`, if there is one.", "NAME", _NAME, _NO_NAME)
    ._replace(is_queue=True),
    _text("priority_class", "The priority class of the job's pods.", "NAME", _NAME, _NO_NAME),
    _text("node_selector", "Labels that the nodes of the tasks must have.", "KEY=VALUE,…", _LABELS, _NO_LABELS),
    _of_site(
        "image", str, "The runtime image, which `kedge bundle --oci` makes. Otherwise the one of this kedge in the "
        "`registry`.", _IMAGE, _NO_IMAGE,
    ),
    _of_site("image_pull_policy", str, "When nodes pull the runtime image.", choices=PULL_POLICIES),
    _of_site(
        "service_account", str, "The service account of the driver, which `kedge kubernetes setup` describes.", _NAME,
        _NO_NAME, default=SERVICE_ACCOUNT,
    ),
    _of_site("gpu", str, "What the cluster calls a GPU.", _RESOURCE, _NO_RESOURCE, default="nvidia.com/gpu"),
    _of_site("rdma", str, "What the cluster calls an RDMA device.", _RESOURCE, _NO_RESOURCE, default="rdma/hca"),
    _of_site(
        "tolerations", list, "Taints of nodes that tasks and drivers tolerate: KEY, KEY=VALUE, or either with "
        ":EFFECT.",
        _TOLERATION, _NO_TOLERATION,
    ),
    _of_site(
        "network_policy", str, "Make a NetworkPolicy for each run, for namespaces that deny traffic: its pods may "
        "receive from each other (`ingress`), and also send to each other, to DNS and, the driver, to the API server "
        "(`both`).", choices=(INGRESS, BOTH),
    ),
    _of_site("pull_secrets", list, "Secrets of the namespace with which nodes pull images.", _NAME, _NO_NAME),
    _of_site("run_as_user", int, "The uid of tasks, instead of the one of their image.", least=1),
    _of_site("run_as_group", int, "The gid of tasks, instead of the one of their image.", least=1),
    _of_site(
        "restricted", bool, "Make tasks comply with the Pod Security standard *restricted*; they always do with "
        "*baseline*, unless `privileged` or `host-network` are set.",
    ),
    _of_site(
        "privileged", bool, "Give tasks the rights that OpenPAI gives them (SYS_ADMIN, IPC_LOCK, DAC_READ_SEARCH, no "
        "AppArmor).",
    ),
    _of_site(
        "host_paths", list, "Folders of the nodes: a storage whose `path` is in one of them is mounted from the task's "
        "node. Such pods do not comply with *baseline*.", _FOLDER, _NO_FOLDER,
    ),
    _of_site("host_network", bool, "Let tasks use the network of their node."),
    _of_site(
        "pod_patch", str, "A YAML file with what is merged into the pods of tasks (strategic merge patch).", _PATCH,
        _NO_PATCH,
    ),
    _of_site("run_volume", str, "The PersistentVolumeClaim that keeps run folders.", _NAME, _NO_NAME),
    _of_site(
        "outputs_volume", str, "The PersistentVolumeClaim (ReadWriteMany) for outputs and `$KEDGE_JOB_DIR`.", _NAME,
        _NO_NAME,
    ),
    _of_site(
        "code_volume", str, "The PersistentVolumeClaim (ReadWriteMany) for code of more than 8 MiB. Without one it is "
        "in the driver, and the job ends with the driver's node.", _NAME, _NO_NAME,
    ),
    _time("keep", "How long a driver without `run-volume` waits to be fetched after the end of its job.", "24h"),
    _time("pending", "How long a pod may wait for a node.", "10m"),
    _time("image_wait", "How long a pod may wait for its image.", "5m"),
    _time("barrier", "How long the tasks of a job wait for each other before the attempt fails.", "10m"),
    _time(
        "unreachable", "How long a task may be silent before it is reported as unreachable; it is not ended.", "2m",
        least=LEAST_UNREACHABLE_SEC,
    ),
    _time(
        "lost_node", "How long a deleted pod on a node that does not answer may hang, at least for its grace, before "
        "it is removed by force; 0: never.", "10m",
    ),
    _of_site(
        "driver_node_selector", str, "Labels that the nodes of drivers must have: KEY=VALUE, or several with commas "
        "between them.", _LABELS, _NO_LABELS,
    ),
    _of_site("driver_cpu", str, "The CPU of the driver.", _QUANTITY, _NO_QUANTITY, default="250m"),
    _of_site("driver_memory", str, "The memory of the driver.", _QUANTITY, _NO_QUANTITY, default="512Mi"),
    _of_site(
        "framework_account", str, "The service account of the pods of Frameworks, which may read Frameworks.", _NAME,
        _NO_NAME, default=FRAMEWORK_ACCOUNT,
    ),
    _of_site(
        "framework_logs", str, "A folder of the nodes that keeps the logs of the tasks of Frameworks, as OpenPAI has "
        "`/var/log/pai`.", _FOLDER, _NO_FOLDER,
    ),
    _of_site(
        "framework_priorities", bool, "Make a priority class for each Framework, so that earlier jobs go first; their "
        "submitters then need a ClusterRole.",
    ),
    _of_site(
        "hived", str, "The name of HiveD, the scheduler of Frameworks; `extras.hivedScheduler` then has effect.", _NAME,
        _NO_NAME,
    ),
    _of_site(
        "fixed", list, "The names of options that neither users nor job files may set.",
        choices=("kubeconfig", "context", "namespace", "controller", "queue", "priority_class", "node_selector"),
    ),
)  # fmt: skip


class KubernetesOptions(NamedTuple):
    """The values of ACCEPTS, by the same names: `KubernetesOptions(**engine.options)`.

    In an engine, `pod_patch` holds the content of the file, as JSON.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    controller: str = DRIVER
    queue: str | None = None
    priority_class: str | None = None
    node_selector: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    service_account: str = SERVICE_ACCOUNT
    gpu: str = "nvidia.com/gpu"
    rdma: str = "rdma/hca"
    tolerations: tuple[str, ...] | list[str] = ()
    network_policy: str | None = None
    pull_secrets: tuple[str, ...] | list[str] = ()
    run_as_user: int | None = None
    run_as_group: int | None = None
    restricted: bool = False
    privileged: bool = False
    host_paths: tuple[str, ...] | list[str] = ()
    host_network: bool = False
    pod_patch: str | None = None
    run_volume: str | None = None
    outputs_volume: str | None = None
    code_volume: str | None = None
    keep: str = "24h"
    pending: str = "10m"
    image_wait: str = "5m"
    barrier: str = "10m"
    unreachable: str = "2m"
    lost_node: str = "10m"
    driver_node_selector: str | None = None
    driver_cpu: str = "250m"
    driver_memory: str = "512Mi"
    framework_account: str = FRAMEWORK_ACCOUNT
    framework_logs: str | None = None
    framework_priorities: bool = False
    hived: str | None = None
    fixed: tuple[str, ...] | list[str] = ()

    @property
    def by_framework(self) -> bool:
        """Whether FrameworkController runs the job."""
        return self.controller == FRAMEWORK

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that the nodes of tasks must have."""
        return _labels(self.node_selector)

    @property
    def driver_node_labels(self) -> dict[str, str]:
        """Those that the driver's node must have."""
        return _labels(self.driver_node_selector)

    @property
    def lost_node_sec(self) -> float | None:
        """After how long a pod of a lost node is removed by force; None: never."""
        return seconds(self.lost_node) or None


def _labels(text: str | None) -> dict[str, str]:
    pairs = (part.partition("=") for part in (text or "").split(",") if part)
    return {key: value for key, _, value in pairs}
