"""The image's own sshd, with a configuration of kedge's: no file of the image is changed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping

from kedge.runtime.actions.base import ActionFailed, ActionJob
from kedge.runtime.files import write_file
from kedge.runtime.ssh import server_files

_READY_SEC = 20.0
_LOOK_SEC = 0.05
_PLACES = "/usr/sbin:/usr/local/sbin:/sbin"  # not on the PATH of every user
_SEPARATION = "/run/sshd"  # a folder without which sshd does not start as root


def find() -> str | None:
    """The path of the image's sshd."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{_PLACES}")


def serve(sshd: str, address: str, port: int, job: ActionJob) -> None:
    """Serve until SIGTERM, which ends this process through every `finally`. ActionFailed: sshd does not start."""
    path = f"{server_files.folder(job.pai)}/sshd_config"
    if os.geteuid() == 0:
        os.makedirs(_SEPARATION, 0o755, exist_ok=True)
    settings = _settings(server_files.folder(job.pai), address, port)
    write_file(path, (settings + "".join(_variables(os.environ))).encode("utf-8", "surrogateescape"), 0o600)
    if subprocess.run([sshd, "-t", "-f", path], capture_output=True, check=False).returncode:
        job.log("[ssh] this sshd cannot set variables: sessions do not have the environment of the task")
        write_file(path, settings.encode(), 0o600)
    process = subprocess.Popen([sshd, "-D", "-e", "-f", path])
    try:
        _await_listening(process, address or "127.0.0.1", port)
        job.log(f"[ssh] start ssh service: {sshd} on port {port}")
        job.ready()
        raise ActionFailed(f"the image's sshd ended with exit code {process.wait()}")
    finally:
        process.terminate()
        process.wait()


def _await_listening(process: subprocess.Popen[bytes], address: str, port: int) -> None:
    give_up = time.monotonic() + _READY_SEC
    while process.poll() is None and time.monotonic() < give_up:
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        time.sleep(_LOOK_SEC)
    if process.poll() is None:
        raise ActionFailed(f"the image's sshd does not listen on port {port} after {_READY_SEC:g} seconds")
    raise ActionFailed(f"the image's sshd ended with exit code {process.returncode}; what it printed is above")


def _settings(folder: str, address: str, port: int) -> str:
    own = f"ListenAddress {address}\n" if address.startswith("127.") else ""
    return f"""\
# The image's sshd, started by kedge for this task only.
Port {port}
{own}HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
ChallengeResponseAuthentication no
AllowAgentForwarding no
X11Forwarding no
UseDNS no
PrintMotd no
PidFile none
LogLevel ERROR
MaxStartups 1000
MaxSessions 1000
Subsystem sftp internal-sftp
"""


def _variables(environment: Mapping[str, str]) -> Iterator[str]:
    """The environment as one setting. Values with characters that some versions of sshd read differently are left
    out."""
    words = [f'"{name}={value}"' for name, value in environment.items() if not set(value) & set('"\\\n\r')]
    if words:
        yield f"SetEnv {' '.join(words)}\n"
