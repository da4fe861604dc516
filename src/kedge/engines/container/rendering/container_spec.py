"""The specification of one container: a value that can be printed, compared, and rendered as a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from kedge.quick_dataclasses import dataclass


class Bind(NamedTuple):
    """A bind mount: a file or folder of this machine, or the name of a volume, and its path in the container."""

    source: str
    target: str
    read_only: bool = False


class Volume(NamedTuple):
    """A volume that the engine mounts for containers: its name, the options of the engine's own driver, and the name of
    the storage behind it."""

    name: str
    options: Mapping[str, str]
    storage: str


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """All that the container engine is asked for. The working directory is that of the image, and so is the user if
    `user` is None.

    Sizes are in bytes. `cpus` and `memory` are None if the machine cannot limit them. `network` is the name of a
    network, or `host`; `address` is the container's address in it. `hosts` are additional host names with their
    addresses. `tmpfs` are folders in memory. `gpus` are devices for the NVIDIA runtime by UUID or, if they contain an
    equals sign, by their CDI names; `devices` are paths. `pids` limits processes and threads. `dropped` are Linux
    capabilities that the engine must not give, `added` those that it gives in addition. `security` is for
    `--security-opt`, `userns` for `--userns`; `mounts` are options of every bind. `volumes` must exist before.
    """

    name: str
    image: str
    hostname: str
    entrypoint: tuple[str, ...]
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    binds: tuple[Bind, ...]
    tmpfs: tuple[str, ...]
    memory: int | None
    cpus: float | None
    shm: int
    network: str
    address: str | None = None
    hosts: Mapping[str, str] | None = None
    devices: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    locked_memory: bool = False
    user: str | None = None
    pids: int | None = None
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    userns: str | None = None
    volumes: tuple[Volume, ...] = ()

    def options(self, bind: Bind) -> str:
        """The options of one of its binds, separated by commas."""
        return ",".join(("ro" if bind.read_only else "rw", *self.mounts))

    def to_json(self) -> dict[str, Any]:
        """The specification as a JSON value."""
        return asdict(self) | {
            "binds": [bind._asdict() for bind in self.binds],
            "volumes": [volume._asdict() for volume in self.volumes],
        }


# Labels of containers and networks that belong to a job.
JOB = "kedge.job"
USER = "kedge.user"
ROLE = "kedge.role"
TASK = "kedge.task"
ATTEMPT = "kedge.attempt"
GPUS = "kedge.gpus"  # UUIDs separated by commas, for other jobs when this job's controller and its locks are gone

TMPFS_OPTIONS = "size=16m,mode=1777,nosuid,nodev"
LOG_LIMIT = "1m"  # the container's own log only holds the runtime's error if it cannot start
