"""The volumes that containers get for storages of servers, and what is checked before."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from kedge.engines.base import Task
from kedge.engines.container import storages
from kedge.engines.container.api.engine_answers import EngineRefused, Facts
from kedge.engines.container.rendering import command_line, render
from kedge.engines.container.rendering.container_spec import Bind, Volume
from kedge.engines.container.storages import volume_options
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.resolve.model import Mount, RemoteStorage

from .rendering.test_render import IMAGE, PLACE, planned

PODMAN = Facts("Podman 5", "amd64", 4, 8 << 30, True, True, False, True, True)
DOCKER = PODMAN._replace(name="Docker 28")
NFS = RemoteStorage("nfs", "nas", "/export", "vers=4.2")
CIFS = RemoteStorage("cifs", "nas", "/share/me", "vers=3.0", "/etc/kedge/cred")


@pytest.mark.parametrize(
    ("remote", "podman", "options"),
    [
        (NFS, True, {"type": "nfs", "device": "nas:/export", "o": "vers=4.2,retry=0"}),
        (NFS._replace(options="retry=3"), True, {"type": "nfs", "device": "nas:/export", "o": "retry=3"}),
        (
            NFS._replace(server="fe80::1", options=""),
            True,
            {"type": "nfs", "device": "[fe80::1]:/export", "o": "retry=0"},
        ),
        (NFS, False, {"type": "nfs", "device": ":/export", "o": "addr=nas,vers=4.2"}),
        (CIFS, True, {"type": "cifs", "device": "//nas/share/me", "o": "credentials=/etc/kedge/cred,vers=3.0"}),
        (CIFS._replace(credentials=None), True, {"type": "cifs", "device": "//nas/share/me", "o": "guest,vers=3.0"}),
        (
            CIFS._replace(credentials=None),
            False,
            {"type": "cifs", "device": "//nas/share/me", "o": "addr=nas,vers=3.0"},
        ),
    ],
)
def test_the_engine_gets_the_options_that_it_understands(
    remote: RemoteStorage, podman: bool, options: dict[str, str]
) -> None:
    assert volume_options(remote, podman=podman) == options


def with_mounts(folder: Path, *mounts: Mount) -> Plan:
    return replace(planned(folder, {}), mounts=mounts)


def test_a_storage_of_a_server_is_one_volume_for_all_its_mounts(tmp_path: Path) -> None:
    plan = with_mounts(
        tmp_path,
        Mount("a", "/a", remote=NFS), Mount("a", "/a2", remote=NFS), Mount("b", "/b", True, remote=CIFS),
        Mount("c", "/c", True, folder="/srv/c"),
    )  # fmt: skip
    binds, volumes = storages.of(plan, "run-1", PODMAN)
    assert binds == (
        Bind("kedge-run-1-0", "/a"), Bind("kedge-run-1-0", "/a2"), Bind("kedge-run-1-1", "/b", True),
        Bind("/srv/c", "/c", True),
    )  # fmt: skip
    assert [(volume.name, volume.storage) for volume in volumes] == [("kedge-run-1-0", "a"), ("kedge-run-1-1", "b")]


def test_the_command_to_paste_makes_and_removes_volumes(tmp_path: Path) -> None:
    plan = with_mounts(tmp_path, Mount("a", "/a", remote=NFS))
    binds, volumes = storages.of(plan, "x", PODMAN)
    spec = render.render(plan, Task("w", 0), replace(PLACE, storages=binds, volumes=volumes), IMAGE, PODMAN)
    text = command_line.command_line(spec, "podman")
    created = "podman volume create --opt type=nfs --opt device=nas:/export --opt o=vers=4.2,retry=0 kedge-x-0"
    assert text.startswith(f"{created} && \\\npodman run")
    assert text.endswith("; podman volume rm kedge-x-0")
    assert "--volume kedge-x-0:/a:rw,nosuid,nodev" in text


@pytest.mark.parametrize(
    ("mount", "facts", "message"),
    [
        (Mount("a", "/a", remote=NFS), PODMAN._replace(rootless=True), "which Podman 5 without root cannot mount"),
        (Mount("a", "/a", remote=CIFS), DOCKER, "Docker 28 reads no credentials from files: mount the storage a on"),
        (Mount("a", "/a", folder="/x:y"), PODMAN, "container engines cannot mount paths with a colon: /x:y"),
        (Mount("a", "/a:b", folder="/x"), PODMAN, "container engines cannot mount paths with a colon: /a:b"),
        (
            Mount("a", "/a", remote=NFS._replace(server="no.invalid")),
            PODMAN,
            "storage a: the server of nfs no.invalid:/export cannot be reached at port 2049",
        ),
    ],
)
def test_what_the_engine_cannot_mount_is_refused(tmp_path: Path, mount: Mount, facts: Facts, message: str) -> None:
    with pytest.raises(CannotRun, match=message.replace("(", r"\(")):
        storages.check(with_mounts(tmp_path, mount), facts)


def test_a_server_must_answer_at_the_port_of_the_options(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        mount = Mount("a", "/a", remote=NFS._replace(server="127.0.0.1", options=f"vers=4.2,port={port}"))
        storages.check(with_mounts(tmp_path, mount), PODMAN)
    with pytest.raises(CannotRun, match=f"cannot be reached at port {port}: Connection refused"):
        storages.check(with_mounts(tmp_path, mount), PODMAN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mounting volume kedge-r-0 for container be4ddb: mount.nfs: access denied by server\n",
            "the storage a (nfs nas:/export) cannot be mounted: mount.nfs: access denied by server",
        ),
        (
            "error while mounting volume '/var/lib/docker/volumes/kedge-r-0/_data': failed to mount local volume: "
            "mount :/export:/var/lib/docker/volumes/kedge-r-0/_data, data: addr=1.2.3.4: connection refused",
            "the storage a (nfs nas:/export) cannot be mounted: failed to mount local volume: "
            "mount :/export:/var/lib/docker/volumes/kedge-r-0/_data, data: addr=1.2.3.4: connection refused",
        ),
        ("no space left", "no space left"),
    ],
)
def test_a_failed_mount_names_the_storage(text: str, message: str) -> None:
    volume = Volume("kedge-r-0", {"type": "nfs", "device": "nas:/export"}, "a")
    assert str(storages.explained(EngineRefused(text, 500), [volume])) == message
