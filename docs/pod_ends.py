"""The table of the ends of tasks that a Kubernetes cluster, or somebody in it, brings about."""

from __future__ import annotations

from kedge.diagnose.model import PERMANENT, TRANSIENT
from kedge.diagnose.rules.packaged import packaged
from kedge.engines.cluster.base import EndKind, GoneKind
from kedge.engines.cluster.task_ends import KINDS
from kedge.engines.kubernetes.pods import kinds

# What has happened, and what that is for kedge. A test checks that nothing is missing.
ENDS: tuple[tuple[str, EndKind], ...] = (
    ("the container was killed for lack of memory (`OOMKilled`)", KINDS[GoneKind.OUT_OF_MEMORY]),
    ("a pod of higher priority, or Kueue, took its place", KINDS[GoneKind.PREEMPTED]),
    ("its node was drained or shut down, or ran short of disk or processes", KINDS[GoneKind.EVICTED]),
    ("its node ran out of memory", kinds.LOW_MEMORY),
    ("it wrote more than its limit of ephemeral storage, or of a volume", kinds.OWN_DISK),
    ("it filled `/dev/shm`", kinds.SHARED_MEMORY),
    ("its node does not answer, and the cluster has removed the pod", KINDS[GoneKind.NODE_LOST]),
    ("somebody deleted the pod (before Kubernetes 1.26 also a drain)", KINDS[GoneKind.DELETED]),
    ("the pod's own `activeDeadlineSeconds`, from a pod patch", KINDS[GoneKind.OUT_OF_TIME]),
    ("no node could take it within `pending`", kinds.NO_ROOM),
    ("its node had no room when it came (`OutOf…`)", kinds.NODE_FULL),
    ("its node's labels or taints have changed (`NodeAffinity`)", kinds.NODE_FORBIDS),
    ("its node does not allow a sysctl or a profile", kinds.NODE_SETTING),
    ("its node failed to admit it (`UnexpectedAdmissionError`)", kinds.NODE_ERROR),
    ("a limit of the namespace, a webhook, or Pod Security refuses the pod", kinds.REFUSED),
    ("the driver's account has no rights", kinds.NO_RIGHT),
    ("the registry has no such image", kinds.NO_IMAGE),
    ("the registry does not give it out", kinds.NO_ACCESS),
    ("the registry cannot be reached", kinds.REGISTRY_UNREACHABLE),
    ("the registry answers too late, or that it is busy", kinds.REGISTRY_BUSY),
    ("the image's name is not valid", kinds.BAD_NAME),
    ("the image may not be pulled, and is not there", kinds.NOT_ON_NODE),
    ("the node's disk is full", kinds.NODE_DISK),
    ("the image is for another processor", kinds.WRONG_PROCESSOR),
    ("the image's user is root, where that is not allowed", kinds.ROOT_IMAGE),
    ("the image's user does not exist", kinds.NO_USER),
    ("a Secret or ConfigMap of the pod patch is missing", kinds.NOT_CONFIGURED),
    ("the server of a storage does not answer", kinds.NOT_MOUNTED),
    ("a volume is wrong", kinds.WRONG_VOLUME),
    ("the network of a pod could not be made", kinds.NO_SANDBOX),
    ("the container could not be created for another reason", kinds.NOT_CREATED),
    ("the container could not be started for another reason", kinds.NOT_STARTED),
    ("its program is missing", kinds.PROGRAM_MISSING),
    ("its program may not be executed", kinds.NO_PERMISSION),
    ("its memory is too small to start", kinds.OUT_OF_MEMORY_AT_START),
    ("a GPU is broken", kinds.NO_GPU),
    ("the node's GPU runtime failed", kinds.GPU_RUNTIME),
    ("kedge's init container failed", kinds.PREPARE),
    ("it found no space", kinds.PREPARE_DISK),
    ("it had too little memory", kinds.PREPARE_MEMORY),
    ("kedge's agent in the pod ended", kinds.AGENT),
    ("the cluster could not start it, and does not say why", KINDS[GoneKind.NOT_STARTED]),
)  # fmt: skip
_RETRIED = {TRANSIENT: "yes", PERMANENT: "no"}
_GANG = 251


def table() -> str:
    """The table in Markdown."""
    rows = [
        f"| {happened} | {kind.sentence} | {kind.code} | `{kind.cause}` | {_retried(kind)} |" for happened, kind in ENDS
    ]
    return "\n".join(
        ("| what happened | what kedge says | code | cause | tried again |", "|---|---|---|---|---|", *rows, "")
    )


def _retried(kind: EndKind) -> str:
    if kind.code == _GANG:
        return "after 1 to 15 minutes"
    return _RETRIED.get(packaged().cause(kind.cause).behaviour, "as often as the job says")
