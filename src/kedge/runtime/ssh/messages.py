"""What `ssh` and `scp` print about their own failures, worded as OpenSSH does."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Sequence

import asyncssh

from kedge.runtime.ssh import configuration
from kedge.runtime.ssh.configuration import ClientConfiguration

OWN_FAILURE = 255  # the exit code for everything but the remote command's own end
_MOST_NAMES = 20


class SshFailed(Exception):
    """The connection failed, or was lost."""


def of_connecting(error: Exception, target: ClientConfiguration, files: Sequence[str]) -> SshFailed:
    """Why a connection could not be made. `files` are the configuration's files, which name the job's tasks."""
    host, port, user = target.address, target.options.port, target.options.username
    if isinstance(error, socket.gaierror):
        return SshFailed(_no_task(target.host, files) or f"ssh: Could not resolve hostname {host}: {error.strerror}")
    if isinstance(error, TimeoutError):
        return SshFailed(f"ssh: connect to host {host} port {port}: Connection timed out")
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return SshFailed(f"{error.reason}\nHost key verification failed.")
    if isinstance(error, asyncssh.PermissionDenied):
        return SshFailed(f"{user}@{host}: Permission denied (publickey).")
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return SshFailed(f"Unable to negotiate with {host} port {port}: {error.reason}")
    if isinstance(error, asyncssh.DisconnectError):
        return SshFailed(f"Connection closed by {host} port {port}: {error.reason}")
    if isinstance(error, OSError):
        return SshFailed(f"ssh: connect to host {host} port {port}: {_system_text(error)}")
    return SshFailed(f"{host}: {error}")


def of_lost(error: Exception, target: ClientConfiguration) -> SshFailed:
    """Why a connection broke off later."""
    return SshFailed(f"Connection to {target.address} closed by remote host: {error}")


def printer(path: str | None, quiet: Callable[[], bool]) -> Callable[[str], None]:
    """A function that prints a message to stderr, or to the file of -E, unless `quiet()`. OSError for that file."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600) if path else 2

    def show(message: str) -> None:
        if not quiet():
            os.write(log, f"{message}\r\n".encode(errors="surrogateescape") if os.isatty(log) else
                     f"{message}\n".encode(errors="surrogateescape"))  # fmt: skip

    return show


def _no_task(host: str, files: Sequence[str]) -> str:
    """That a name is none of the job's tasks; empty if the files name no tasks."""
    names = configuration.task_names(files)
    if not names or host in names:
        return ""
    names = [name for file in files for name in configuration.task_blocks(file)]  # without their other spellings
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    shown = ", ".join(names[:_MOST_NAMES])
    return f"ssh: {host} has no address and is no task of this job; its tasks are {shown}{more}"


def _system_text(error: OSError) -> str:
    if error.errno:  # asyncio writes its own text around the one of the system
        return os.strerror(error.errno)
    several = re.findall(r"\[Errno (-?\d+)\]", str(error))
    return os.strerror(int(several[-1])) if several else str(error)
