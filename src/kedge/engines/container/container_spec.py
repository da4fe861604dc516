"""What one container is: a value that can be printed, compared, and turned into a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Bind(NamedTuple):
    """A file or folder of this machine and where the container sees it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """All that the container engine is told. Working directory and, if it is None, `user` are the image's.

    Sizes are in bytes. `cpus` and `memory` are None where the machine cannot limit them. `network` is the name of a
    network, or `host`; `address` is the container's in it. `hosts` are names that it knows besides, with their
    addresses. `tmpfs` are folders in memory. `gpus` are devices for the NVIDIA runtime by UUID or, with an equals sign
    in them, by their names for CDI; `devices` are paths. `pids` is how many processes and threads it may have at once.
    `dropped` are capabilities of Linux that it does not get from the engine, `added` those that it gets besides.
    `security` is as of `--security-opt`, `userns` as of `--userns`; `mounts` are options of every bind.
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

    def options(self, bind: Bind) -> str:
        """Of one of its binds, with commas between."""
        return ",".join(("ro" if bind.read_only else "rw", *self.mounts))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self) | {"binds": [bind._asdict() for bind in self.binds]}


# Labels of everything that belongs to a job.
JOB = "kedge.job"
USER = "kedge.user"
ROLE = "kedge.role"
TASK = "kedge.task"
ATTEMPT = "kedge.attempt"
GPUS = "kedge.gpus"  # UUIDs with commas between, for who comes when the job's controller and its locks are gone

TMPFS_OPTIONS = "size=16m,mode=1777,nosuid,nodev"
LOG_LIMIT = "1m"  # the container's own log only holds what the runtime says if it cannot start
