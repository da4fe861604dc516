"""OpenSSH's server, with the files of a task of a job with ssh, and the runtime's commands `ssh` and `scp`."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import RUNTIME, SITE

from kedge.testing.wait import wait_until

_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH')}:/usr/sbin")
TIMEOUT = 60


class Server:
    """One server on loopback, called worker_a-0 (workera-0) to worker_a-2, and `down-0`, where nothing listens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "task" / "pai" / "ssh"
        self.folder.mkdir(parents=True, mode=0o700)
        for name in ("host_key", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        (self.folder / "authorized_keys").write_text((self.folder / "id.pub").read_text())
        with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as closed:
            self.port, self.closed = free.getsockname()[1], closed.getsockname()[1]
        key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}")
        self.config = self.folder / "config"
        self.config.write_text("".join(self.block(f"worker_a-{n}", f"workera-{n}") for n in range(3)))
        with self.config.open("a") as file:
            file.write(self.block("down-0", port=self.closed))
        self.process: subprocess.Popen[bytes] | None = None

    def block(self, *names: str, port: int | None = None) -> str:
        """The lines of the configuration for one task."""
        return f"""\
Host {" ".join(names)}
  HostName 127.0.0.1
  Port {port or self.port}
  User {getpass.getuser()}
  IdentityFile {self.folder}/id
  IdentitiesOnly yes
  UserKnownHostsFile {self.folder}/known_hosts
  StrictHostKeyChecking yes
  BatchMode yes
"""

    def start(self) -> None:
        settings = self.folder.parent / "sshd_config"
        settings.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nUsePAM no\nStrictModes no\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nPidFile none\nPermitRootLogin yes\nMaxStartups 100\n"
            "Subsystem sftp internal-sftp\nAcceptEnv GREETING\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [str(_SSHD), "-D", "-f", str(settings), "-E", str(self.folder.parent / "sshd.log")]
        )
        wait_until(self._listens, TIMEOUT)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def argv(self, *arguments: object, program: str = "ssh") -> list[str]:
        """The command as the script in <pai>/ssh/bin starts it."""
        start = (sys.executable, "-I", "-S", RUNTIME, "--ssh", SITE, program, "-F", self.config)
        return [str(word) for word in (*start, *arguments)]

    def run(self, *arguments: object, program: str = "ssh", **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"stdin": subprocess.DEVNULL} | options if "input" not in options else options
        return subprocess.run(
            self.argv(*arguments, program=program),
            capture_output=True, text=True, timeout=TIMEOUT, check=False, **options,
        )  # fmt: skip

    def close(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(TIMEOUT)


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[Server]:
    """A server that is not started yet."""
    pytest.importorskip("asyncssh")
    if not _SSHD or not shutil.which("ssh-keygen"):
        pytest.skip("OpenSSH's server is missing (Debian: apt-get install openssh-server)")
    server = Server(tmp_path)
    yield server
    server.close()


@pytest.fixture
def server(prepared: Server) -> Server:
    prepared.start()
    return prepared
