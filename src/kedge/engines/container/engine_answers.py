"""What a container engine answers: values, and its refusals and silence as errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kedge.errors import CannotRun


class EngineGone(CannotRun):
    """The container engine does not answer."""


class EngineRefused(CannotRun):
    """The container engine answers that it cannot. `status` is the one of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class Facts(NamedTuple):
    """The machine as its container engine sees it. `memory` in bytes; `limits_*`: whether it can limit them; `selinux`:
    whether it labels containers; `gpus`:
    whether it can pass them on, `cdi`: whether by their names for CDI."""

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
    """What an image says of itself. `digests` are those of its manifests, each as `repository@sha256:…`."""

    id: str
    architecture: str
    user: str
    workdir: str
    environment: Mapping[str, str]
    digests: tuple[str, ...] = ()


class Seen(NamedTuple):
    """A container that is there. One that was made and not started neither runs nor has ended; one that is paused
    runs."""

    name: str
    running: bool
    ended: bool


class RunningContainer(NamedTuple):
    """A container that runs: the engine's id of it, the pid of its first process, and the folder of what it changes, on
    the engine's machine."""

    identity: str
    pid: int
    layer: str | None


class ContainerState(NamedTuple):
    """How a container ended. `said` is its own log."""

    exit_code: int
    out_of_memory: bool
    error: str
    said: str
