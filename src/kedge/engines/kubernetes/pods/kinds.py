"""What each end of a pod means: OpenPAI's code, the reason of the report, kedge's cause, and a sentence.

Ends that other clusters have, too, are in engines/cluster/task_ends.py."""

from __future__ import annotations

from kedge.contract import CANNOT_START, COMMAND_KILLED, RUNTIME_BROKE, RUNTIME_ERROR
from kedge.engines.cluster.base import EndKind

_INSUFFICIENT, _FORBIDDEN, _UNEXPECTED = -1002, -1005, -1006
_OUT_OF_MEMORY, _INIT_OUT_OF_MEMORY = -1200, -1300
_CREATION, _PERMISSION, _NOT_FOUND, _START, _GPU = -1201, -1202, -1203, -1204, -1205
_REFUSED = -200
_IMAGE = 254
_NO_GANG = 251  # JobGangAllocationTimeout: tried again after 60 to 900 s
_EVICTED = -1000
_LESS_DISK = (
    "Write large files to a storage or to $KEDGE_JOB_DIR, not to the container's own disk.",
    "Ask the site for a larger limit of ephemeral storage (pod-patch).",
)

NO_ROOM = EndKind(
    _NO_GANG, CANNOT_START, "scheduler_resource_unavailable", "no node of the cluster could take the task in time"
)
NODE_FULL = EndKind(_INSUFFICIENT, CANNOT_START, "node_refused", "the task's node had no room left for it")
NODE_FORBIDS = EndKind(_FORBIDDEN, CANNOT_START, "node_refused", "the task's node refused it")
NODE_SETTING = EndKind(
    _FORBIDDEN, CANNOT_START, "bad_config", "the task's node does not allow what its pod asks for",
    ("Take the setting that the message names out of the site's pod-patch, or have the nodes allow it.",),
)  # fmt: skip
NODE_ERROR = EndKind(_UNEXPECTED, CANNOT_START, "node_refused", "the task's node could not admit it")
REFUSED = EndKind(
    _REFUSED, CANNOT_START, "bad_config", "the cluster does not take the task's pod",
    ("Ask for less, or show what the cluster says to the site's administrator.",),
)  # fmt: skip
NO_RIGHT = EndKind(
    _REFUSED, CANNOT_START, "bad_config", "the driver of the job may not create pods",
    ("Have an administrator of the namespace apply what `kedge kubernetes setup` prints.",),
)  # fmt: skip
OWN_DISK = EndKind(_EVICTED, COMMAND_KILLED, "disk_full", "the task wrote more than its pod may", _LESS_DISK)
SHARED_MEMORY = EndKind(_EVICTED, COMMAND_KILLED, "shm_exhausted", "the task used more shared memory than it may")
LOW_MEMORY = EndKind(
    _EVICTED, COMMAND_KILLED, "evicted", "the task's node ran out of memory and evicted it",
    ("Run it again from the last checkpoint; another node may have more room.",
     "If it happens again, ask the site to reserve memory of its nodes for the system."),
)  # fmt: skip
OUT_OF_MEMORY_AT_START = EndKind(
    _OUT_OF_MEMORY, CANNOT_START, "host_oom_kill", "the task's container needs more memory to start than it may use"
)
PREPARE_MEMORY = EndKind(
    _INIT_OUT_OF_MEMORY, CANNOT_START, "node_failure", "the container that prepares the pod was killed for lack of "
    "memory", ("Run it again; if it happens again, ask the site about the memory of its nodes.",),
)  # fmt: skip
PREPARE = EndKind(
    RUNTIME_BROKE, CANNOT_START, "container_failure", "the container that prepares the pod failed",
    ("Read what it says with `kubectl logs POD -c prepare`.",
     "Check that the runtime image is the one of this version of kedge, and that the node's disk is not full."),
)  # fmt: skip
PREPARE_DISK = EndKind(RUNTIME_BROKE, CANNOT_START, "disk_full", "the container that prepares the pod found no space")
AGENT = EndKind(
    RUNTIME_BROKE, RUNTIME_ERROR, "remote_worker_lost", "kedge's own container beside the task has ended",
    ("Read what it says with `kubectl logs POD -c agent`.", "Run the job again."),
)  # fmt: skip
PROGRAM_MISSING = EndKind(
    _NOT_FOUND, CANNOT_START, "container_failure", "the program of the task's container does not exist in it"
)
NO_PERMISSION = EndKind(
    _PERMISSION, CANNOT_START, "container_failure", "the program of the task's container may not be executed",
    ("Check that volumes of pods may hold programs on this node (no `noexec`).",
     "Check the user that the image, or the site's run-as-user, names."),
)  # fmt: skip
WRONG_PROCESSOR = EndKind(
    _IMAGE, CANNOT_START, "container_failure", "the image is for another kind of processor than the node",
    ("Use an image for the processors of the nodes, or choose nodes with --kubernetes node-selector.",),
)  # fmt: skip
NO_GPU = EndKind(_GPU, CANNOT_START, "gpu_hw_fault", "a GPU that the node gave to the task does not work")
GPU_RUNTIME = EndKind(_START, CANNOT_START, "gpu_unavailable", "the node could not give the task its GPUs")
NOT_STARTED = EndKind(
    _START, CANNOT_START, "container_failure", "the task's container could not be started",
    ("Read what the node says; if it is not about the image, the site's administrator should look at the node.",),
)  # fmt: skip
NOT_CREATED = EndKind(
    _CREATION, CANNOT_START, "container_failure", "the task's container could not be created",
    ("Read what the node says; if it is not about the image, the site's administrator should look at the node.",),
)  # fmt: skip
NOT_CONFIGURED = EndKind(
    _CREATION, CANNOT_START, "bad_config", "the task's container cannot be configured",
    ("Create the Secret or ConfigMap that the message names, or take it out of the site's pod-patch.",),
)  # fmt: skip
ROOT_IMAGE = EndKind(
    _IMAGE, CANNOT_START, "container_failure", "the image wants to run as root, which this site does not allow",
    ("Use an image whose USER is a number other than 0, or have the site set run-as-user.",),
)  # fmt: skip
NO_USER = EndKind(_IMAGE, CANNOT_START, "container_failure", "the user that the image names does not exist in it")
NOT_MOUNTED = EndKind(
    _CREATION, CANNOT_START, "storage_hang", "a volume of the task's pod could not be mounted",
    ("Check that the storage exists and that the node can reach its server.",
     "`kubectl describe pod POD` shows the newest messages of the mount."),
)  # fmt: skip
WRONG_VOLUME = EndKind(
    _CREATION, CANNOT_START, "container_failure", "a volume of the task's pod could not be mounted",
    ("Check the storage in the site's file: its kind, its path there, and that the nodes have what mounts it.",
     "`kubectl describe pod POD` shows the newest messages of the mount."),
)  # fmt: skip
NO_SANDBOX = EndKind(
    _CREATION, CANNOT_START, "node_failure", "the node could not set up the task's pod",
    ("Run it again; the site's administrator should look at the network of the node.",),
)  # fmt: skip
NO_IMAGE = EndKind(_IMAGE, CANNOT_START, "container_failure", "the image does not exist")
NO_ACCESS = EndKind(
    _IMAGE, CANNOT_START, "remote_access_denied", "the registry does not hand the image out",
    ("Check the image's name and tag: registries also answer like this where there is no such image.",
     "Give the job the registry's credentials (`auth` of the image), or have the site name pull-secrets."),
)  # fmt: skip
_BRING_IT = (
    "Check the registry in the image's name, and the network and proxy of the nodes; then run again.",
    "If nodes cannot reach that registry, push the image to one that they can.",
)
REGISTRY_UNREACHABLE = EndKind(
    _IMAGE, CANNOT_START, "network_unreachable", "the node cannot reach the registry of the image", _BRING_IT
)
REGISTRY_BUSY = EndKind(
    _IMAGE, CANNOT_START, "network_transient", "the registry of the image does not answer as it should", _BRING_IT
)
BAD_NAME = EndKind(
    _IMAGE, CANNOT_START, "container_failure", "the name of the image is not valid",
    ("Correct the image's name: lower case, REGISTRY/NAME:TAG.",),
)  # fmt: skip
NOT_ON_NODE = EndKind(
    _IMAGE, CANNOT_START, "container_failure", "the image is not on the node, which may not pull it",
    ("Push the image to a registry, or load it on the nodes; image-pull-policy Never forbids to pull it.",),
)  # fmt: skip
NODE_DISK = EndKind(
    _IMAGE, CANNOT_START, "node_refused", "the task's node has no space for the image",
    ("Run it again: another node may have space. The site's administrator should free some on this one.",),
)  # fmt: skip


def of_refusal(answer: str) -> EndKind:
    """What it means that the API server does not create a pod, for good, with this answer."""
    return NO_RIGHT if "cannot create resource" in answer else REFUSED
