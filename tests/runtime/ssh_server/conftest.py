"""A server of the runtime that OpenSSH's own client connects to."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import JOB_SSH_HOST_KEY, JOB_SSH_KEY
from kedge.jobs import ssh_keys

HOST = "task_role-0"
OPENSSH = [shutil.which(name) for name in ("ssh", "scp", "sftp")]
PROGRAM = Path(__file__).with_name("serve.py")


class SshServer:
    """One server and its files. `ssh` runs OpenSSH's client with the job's key."""

    def __init__(self, folder: Path, port: int, process: subprocess.Popen[str], log: list[str]) -> None:
        self.folder, self.port, self.process, self.log = folder, port, process, log
        self.config = folder / "pai/ssh/config"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def argv(self, *words: str, program: str = "ssh") -> list[str]:
        return [program, "-F", str(self.config), *words]

    def ssh(self, *words: str, program: str = "ssh", **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.argv(*words, program=program), capture_output=True, timeout=600, check=False,
            **({"stdin": subprocess.DEVNULL} if "input" not in options else {}) | options,
        )  # fmt: skip

    def output(self, *words: str) -> str:
        """What a command that must succeed prints."""
        done = self.ssh(HOST, *words)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def start(folder: Path, environment: dict[str, str] | None = None, **parameters: Any) -> SshServer:
    """Start a server in a folder, and wait until it is ready."""
    port, keys, pai = free_port(), ssh_keys.made(), folder / "pai"
    for name in ("work", "pai/secrets"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    peers = {"roles": {"task_role": [{"host": "127.0.0.1", "ports": {"ssh": [port]}}, {"host": None, "ports": {}}]}}
    (folder / "peers.json").write_text(json.dumps(peers))
    request = {"jobssh": True, "key": keys[JOB_SSH_KEY], "hostKey": keys[JOB_SSH_HOST_KEY]} | parameters
    variables = {
        "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "FC_POD_UID": "uid",
        "PAI_CONTAINER_SSH_PORT": str(port), "PAI_CURRENT_CONTAINER_IP": "127.0.0.1",
        "KEDGE_PEERS_FILE": str(folder / "peers.json"),
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(PROGRAM), str(pai), json.dumps(request)], cwd=folder / "work",
        env=variables | (environment or {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout
    log = []
    for line in process.stdout:
        log.append(line)
        if line.startswith('{"ready"'):
            break
    return SshServer(folder, port, process, log)


def stop(server: SshServer) -> str:
    """End a server, and return the rest of what it has printed."""
    server.process.terminate()
    rest, _ = server.process.communicate(timeout=600)
    return rest


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """A server that tests share and do not change."""
    found = start(tmp_path_factory.mktemp("server"), {"FROM_TASK": "a 'quoted' value"})
    yield found
    stop(found)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Callable[..., SshServer]]:
    """Starts servers that a test may stop and change."""
    started: list[SshServer] = []

    def make(environment: dict[str, str] | None = None, **parameters: Any) -> SshServer:
        started.append(start(tmp_path / str(len(started)), environment, **parameters))
        return started[-1]

    yield make
    for each in started:
        each.process.kill()
        each.process.communicate()
