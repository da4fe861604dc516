"""The action `ssh-server`: serves ssh in a task, whatever its image has.

Parameters: `jobssh` (whether the job's tasks reach each other), `key` (the job's private key, if so), `hostKey` (the
private key of the server; empty for a new one), `keys` (the users' public keys, one line each), `keyFiles` (names of
files with more of them in <pai>/ssh-secret), `imageSshd` (whether the image's own sshd serves, if there is one).

Who has one of the private keys may log in, under any user name: everything runs as the task's own user.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import asyncssh

from kedge.runtime.actions.base import ActionFailed, ActionJob
from kedge.runtime.files import read_file
from kedge.runtime.ssh import image_sshd, server_files
from kedge.runtime.ssh.remote_program import RemoteProgram
from kedge.runtime.ssh.server_session import Surroundings, TaskSession

_PORT_VARIABLE = "PAI_CONTAINER_SSH_PORT"
_ADDRESS_VARIABLE = "PAI_CURRENT_CONTAINER_IP"
_LOGIN_SEC = 60
_SILENT_SEC, _SILENT_TIMES = 60, 3  # a client that does not answer for so long is gone
_BIND_SEC = 20.0  # how long the port may be taken by what is ending
_BACKLOG = 1024  # MPI starts one session for every host at the same time
_MOST_REFUSALS = 20  # lines in runtime.log about clients that may not log in
# Without ChaCha20, which OpenSSH's client prefers: here it takes three times as long.
_CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr"
_NEVER_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP)
_SHELLS = ("bash", "sh")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(parameters: Mapping[str, Any], job: ActionJob) -> None:
    """Serve until SIGTERM. ActionFailed: the server cannot start."""
    port = _port()
    host_key = _host_key(parameters)
    known_key = _public_line(host_key)
    key = parameters.get("key") if parameters.get("jobssh") else None
    authorized = [_public_line(_private(key, "job's key"))] if key else []
    authorized += [line for text in parameters.get("keys", ()) for line in _lines(text)]
    authorized += [line for name in parameters.get("keyFiles", ()) for line in _of_file(job, name)]
    server_files.write(job.pai, key, host_key.export_private_key().decode(), known_key, authorized)
    server_files.write_config(job.pai, server_files.tasks_of_job(os.environ) if key else [])
    sshd = image_sshd.find() if parameters.get("imageSshd") else None
    if sshd:
        image_sshd.serve(sshd, os.environ.get(_ADDRESS_VARIABLE) or "", port, job)
    elif parameters.get("imageSshd"):
        job.log("[ssh] no sshd binary found in the image: kedge's own server takes its place")
    asyncio.run(_serve(port, host_key, _accepted(authorized, job), job))


def _port() -> int:
    try:
        return int(os.environ[_PORT_VARIABLE])
    except (KeyError, ValueError):
        raise ActionFailed(
            "this task has no port for ssh: add `ssh: 1` to resourcePerInstance.ports of its task role", "bad_config"
        ) from None


def _host_key(parameters: Mapping[str, Any]) -> asyncssh.SSHKey:
    """The key of the job's servers; a new one where the job has none, which is where tasks do not reach each other."""
    text = parameters.get("hostKey")
    return _private(text, "host key") if text else asyncssh.generate_private_key("ssh-ed25519")


def _private(text: str, what: str) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(text)
    except (asyncssh.KeyImportError, ValueError) as error:
        raise ActionFailed(f"the {what} is not a private key: {error}", "bad_config") from None


def _public_line(key: asyncssh.SSHKey) -> str:
    kind, data = key.export_public_key().decode().split()[:2]
    return f"{kind} {data} kedge"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _of_file(job: ActionJob, name: str) -> list[str]:
    path = f"{job.pai}/ssh-secret/{os.path.basename(name)}"
    try:
        return _lines(read_file(path).decode())
    except (OSError, ValueError) as error:
        job.log(f"[ssh] the public keys in {path} cannot be read: {error}")
        return []


def _accepted(lines: Sequence[str], job: ActionJob) -> asyncssh.SSHAuthorizedKeys:
    """The keys that may log in. One that cannot be read is left out, with a line in the log."""
    good = []
    for line in lines:
        try:
            asyncssh.import_public_key(line)
            good.append(line)
        except (asyncssh.KeyImportError, ValueError) as error:
            job.log(f"[ssh] a public key is left out, since it cannot be read: {error}")
    if not good:
        raise ActionFailed("nobody could log in: there is neither a key of the job nor of a user", "bad_config")
    return asyncssh.import_authorized_keys("".join(f"{line}\n" for line in good))


async def _serve(port: int, host_key: asyncssh.SSHKey, keys: asyncssh.SSHAuthorizedKeys, job: ActionJob) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    running: set[RemoteProgram] = set()
    loop.add_signal_handler(signal.SIGCHLD, _look, running)
    for number in _NEVER_IGNORED:  # programs would inherit that; they do not inherit handlers
        signal.signal(number, lambda number, frame: None)
    loop.set_exception_handler(lambda _, facts: job.log(f"[ssh] {facts.get('exception') or facts['message']}"))
    logging.getLogger("asyncssh").addHandler(logging.NullHandler())
    refusals = _Refusals(job)
    surroundings = Surroundings(_shell(), job.variables, os.getcwd(), running)
    listener = await _listen(port, host_key, keys, lambda: _TaskServer(surroundings, refusals))
    job.log(f"[ssh] serving on port {port}, host key {host_key.get_fingerprint()}")
    job.ready()
    await stopped.wait()
    listener.close()
    for program in running:
        program.hang_up()


def _look(running: set[RemoteProgram]) -> None:
    """A child has ended."""
    for program in list(running):
        program.look()
        if program.ended:
            running.discard(program)


async def _listen(port: int, host_key: Any, keys: Any, factory: Any) -> Any:
    """Listen on the task's port, as soon as what held it has gone."""
    loop, own = asyncio.get_running_loop(), os.environ.get(_ADDRESS_VARIABLE) or ""
    give_up = loop.time() + _BIND_SEC
    while True:
        try:
            # A machine whose tasks reach each other on its loopback offers them nowhere else.
            return await asyncssh.listen(
                own if own.startswith("127.") else "", port, server_factory=factory, server_host_keys=[host_key],
                authorized_client_keys=keys, password_auth=False, kbdint_auth=False, host_based_auth=False,
                gss_host=None, agent_forwarding=False, x11_forwarding=False, line_editor=False, encoding=None,
                allow_scp=True, rdns_lookup=False, login_timeout=_LOGIN_SEC, keepalive_interval=_SILENT_SEC,
                keepalive_count_max=_SILENT_TIMES, backlog=_BACKLOG, reuse_address=True, encryption_algs=_CIPHERS,
            )  # fmt: skip
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ActionFailed(f"ssh cannot listen on port {port}: {error.strerror}") from error
            if loop.time() > give_up:
                raise ActionFailed(
                    f"ssh cannot listen on port {port}: another program has it", "port_conflict"
                ) from error
        await asyncio.sleep(0.1)


class _Refusals:
    """Logs who may not log in, and stops when there are many."""

    def __init__(self, job: ActionJob) -> None:
        self._job, self._count = job, 0

    def note(self, address: str) -> None:
        """One client was refused."""
        self._count += 1
        if self._count <= _MOST_REFUSALS:
            last = "; further ones are not logged" if self._count == _MOST_REFUSALS else ""
            self._job.log(f"[ssh] refused a client from {address}: none of its keys may log in{last}")


class _TaskServer(asyncssh.SSHServer):  # type: ignore[misc]
    """One connection."""

    def __init__(self, surroundings: Surroundings, refusals: _Refusals) -> None:
        self._surroundings, self._refusals = surroundings, refusals
        self._address, self._tried, self._let_in = "", False, False

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._address = (conn.get_extra_info("peername") or ("?",))[0]

    def begin_auth(self, username: str) -> bool:
        self._tried = True
        return True

    def auth_completed(self) -> None:
        self._let_in = True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._tried and not self._let_in:
            self._refusals.note(self._address)

    def session_requested(self) -> Any:
        return TaskSession(self._surroundings)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        return True

    def unix_connection_requested(self, dest_path: str) -> bool:
        return True

    def unix_server_requested(self, listen_path: str) -> bool:
        return True


def _shell() -> str:
    """The task's shell: bash if it is on the PATH, else sh, else /bin/sh."""
    for name in _SHELLS:
        for folder in os.environ.get("PATH", _DEFAULT_PATH).split(":"):
            path = os.path.join(os.path.abspath(folder), name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return "/bin/sh"
