"""The storages of a job in containers: folders of this machine, and volumes that the engine itself mounts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import EngineRefused, Facts
from kedge.engines.container.rendering.container_spec import Bind, Volume
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Mount, RemoteStorage

CONNECT_SEC = 5.0
_UNMOUNTED = "mounting volume"  # in the errors of Podman and Docker, which then name the volume
_PORTS = {"nfs": 2049, "cifs": 445}


def check(plan: Plan, facts: Facts) -> None:
    """CannotRun for a storage that this engine cannot mount, or whose server does not answer."""
    for mount in plan.mounts:
        for path in (mount.folder or "", mount.path):
            if ":" in path:
                raise CannotRun(f"storage {mount.name}: container engines cannot mount paths with a colon: {path}")
        if mount.claim and not (mount.folder or mount.remote):
            raise CannotRun(
                f"the storage {mount.name} is the claim {mount.claim.name} of a Kubernetes cluster: mount it on this "
                f"machine and set storages.{mount.name}.path in the site's file, or use --engine kubernetes"
            )
    for name, remote in _remotes(plan.mounts):
        if facts.rootless:
            raise CannotRun(
                f"the storage {name} is {remote.kind} {remote.device}, which {facts.name} without root cannot mount: "
                f"mount it on this machine and set storages.{name}.path in the site's file"
            )
        if remote.credentials and not facts.podman:
            raise CannotRun(
                f"{facts.name} reads no credentials from files: mount the storage {name} on this machine and set "
                f"storages.{name}.path in the site's file"
            )
        if problem := _unreachable(remote.server, _port(remote)):
            raise CannotRun(f"storage {name}: the server of {remote.kind} {remote.device} {problem}")


def of(plan: Plan, run_id: str, facts: Facts) -> tuple[tuple[Bind, ...], tuple[Volume, ...]]:
    """What containers mount for the storages, and the volumes that this needs, one for each storage of a server."""
    volumes = {
        name: Volume(f"kedge-{run_id}-{number}", volume_options(remote, podman=facts.podman), name)
        for number, (name, remote) in enumerate(_remotes(plan.mounts))
    }
    sources = {
        mount.name: mount.folder or volumes[mount.name].name for mount in plan.mounts if mount.folder or mount.remote
    }
    binds = (Bind(sources[m.name], m.path, m.read_only) for m in plan.mounts if m.name in sources)
    return tuple(binds), tuple(volumes.values())


def volume_options(remote: RemoteStorage, *, podman: bool) -> dict[str, str]:
    """The options of the driver `local`. Podman runs mount(8), which looks up names and reads files of credentials;
    Docker calls mount(2), whose options it takes as they are, and looks up only `addr`."""
    device, options = remote.device, [remote.options] if remote.options else []
    if not podman:
        options.insert(0, f"addr={remote.server}")
        device = f":{remote.path}" if remote.kind == "nfs" else device
    elif remote.kind == "nfs":
        options += [] if "retry=" in remote.options else ["retry=0"]  # minutes; mount(8) tries for two otherwise
    else:
        options.insert(0, f"credentials={remote.credentials}" if remote.credentials else "guest")
    return {"type": remote.kind, "device": device} | ({"o": ",".join(options)} if options else {})


class StorageProblem(CannotRun):
    """The engine cannot mount a storage."""


def explained(error: EngineRefused, volumes: Iterable[Volume]) -> CannotRun:
    """The error of a container that cannot be started, about the storage if it is about one."""
    text = str(error)
    for volume in volumes:
        if _UNMOUNTED in text and volume.name in text:
            kind, device = volume.options["type"], volume.options["device"]
            reason = "; ".join(text.partition(volume.name)[2].partition(": ")[2].split("\n")).strip("; ")
            return StorageProblem(f"the storage {volume.storage} ({kind} {device}) cannot be mounted: {reason}")
    return error


def create(client: Client, volumes: Iterable[Volume], labels: Mapping[str, str]) -> None:
    """Create the volumes. CannotRun: the engine refuses one."""
    for volume in volumes:
        try:
            client.create_volume(volume.name, volume.options, labels)
        except EngineRefused as error:
            raise CannotRun(f"the volume of {volume.options['device']} cannot be created: {error}") from error


def _remotes(mounts: Iterable[Mount]) -> Iterator[tuple[str, RemoteStorage]]:
    """The storages of servers, each once."""
    yield from {mount.name: mount.remote for mount in mounts if mount.remote and not mount.folder}.items()


def _port(remote: RemoteStorage) -> int:
    for option in remote.options.split(","):
        key, _, value = option.partition("=")
        if key == "port" and value.isdecimal():
            return int(value)
    return _PORTS[remote.kind]


def _unreachable(server: str, port: int) -> str | None:
    """Why nobody answers there; None if somebody does. A thread asks, because looking up a name has no deadline."""
    answer: list[str | None] = []

    def ask() -> None:
        try:
            socket.create_connection((server, port), CONNECT_SEC).close()
        except OSError as error:
            answer.append(f"cannot be reached at port {port}: {error.strerror or error}")
        else:
            answer.append(None)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(CONNECT_SEC + 1)
    with suppress(IndexError):
        return answer[0]
    return f"does not answer at port {port} within {CONNECT_SEC:g} s"
