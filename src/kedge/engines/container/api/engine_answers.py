"""The answers of a container engine as values, and errors for requests that it rejects or does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kedge.errors import CannotRun


class EngineGone(CannotRun):
    """The container engine does not answer."""


class EngineRefused(CannotRun):
    """The container engine rejects a request. `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class Facts(NamedTuple):
    """The machine as its container engine reports it. `memory` is in bytes; `limits_*`: whether it can limit these;
    `selinux`: whether it labels containers; `gpus`: whether it can give GPUs to containers, `cdi`: whether by their CDI
    names."""

    name: str
    architecture: str
    cpus: int
    memory: int
    limits_cpu: bool
    limits_memory: bool
    rootless: bool
    gpus: bool
    cdi: bool
    limits_pids: bool = True
    selinux: bool = False

    @property
    def podman(self) -> bool:
        """Whether it is Podman."""
        return self.name.startswith("Podman")


class LocalImage(NamedTuple):
    """An image on this machine. `digests` are those of its manifests, each as `repository@sha256:…`."""

    id: str
    architecture: str
    user: str
    workdir: str
    environment: Mapping[str, str]
    digests: tuple[str, ...] = ()


class Seen(NamedTuple):
    """An existing container. If it was made but not started, it is neither running nor ended; if paused, it is
    running."""

    name: str
    running: bool
    ended: bool


class RunningContainer(NamedTuple):
    """A running container: its id, the pid of its first process, and the folder of its changes on the engine's
    machine."""

    identity: str
    pid: int
    layer: str | None


class ContainerState(NamedTuple):
    """How a container ended. `log` is the end of its own log."""

    exit_code: int
    out_of_memory: bool
    error: str
    log: str
