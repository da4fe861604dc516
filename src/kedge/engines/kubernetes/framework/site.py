"""What a site says about the pods of its frameworks. The defaults are OpenPAI's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class FrameworkSite(NamedTuple):
    """`runtime_image` is the image of the init phase. `node_label` is the label that nodes for jobs have; empty for any
    node. `fuse` asks for the device of FUSE. `capabilities` are added to containers that run commands of users,
    `dropped` are taken from them. `log_folder` is the folder of each node with the logs; empty for none beyond the pod.
    `deletion_sec` is how long a pod may take to end before it is deleted by force; None: it never is.
    `pull_policy` is that of the runtime image, `app_pull_policy` that of users' images; empty for Kubernetes' own.
    `node_labels` are further labels that nodes must have; `tolerations` are those of pods. `hived` is the name of the
    scheduler HiveD, if there is one. `ports` are the first port for tasks and the one after the last. `gpu` and `rdma`
    are names of resources.
    """

    runtime_image: str
    namespace: str = "default"
    service_account: str = "runtime-account"
    api_server: str = ""
    rest_server: str = ""
    host_network: bool = True
    node_label: str = "pai-worker=true"
    fuse: bool = True
    capabilities: tuple[str, ...] = ("SYS_ADMIN", "IPC_LOCK", "DAC_READ_SEARCH")
    dropped: tuple[str, ...] = ("MKNOD",)
    unconfined: bool = True
    log_folder: str = "/var/log/pai"
    pull_secrets: tuple[str, ...] = ("pai-secret",)
    pull_policy: str = "Always"
    app_pull_policy: str = "Always"
    node_labels: Mapping[str, str] = MappingProxyType({})
    tolerations: tuple[Mapping[str, str], ...] = ()
    hived: str = ""
    exit_spec: str = "runtime-exit-spec-configuration"
    gpu: str = "nvidia.com/gpu"
    rdma: str = "rdma/hca"
    deletion_sec: int | None = 600
    ports: tuple[int, int] = (15000, 40000)
