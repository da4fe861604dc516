"""The files of ssh in a task, below <pai>/ssh:

config           what a client needs to reach the job's tasks by name, in OpenSSH's syntax
known_hosts      the host key of all the job's tasks, under the name HOST_ALIAS
authorized_keys  the public keys that may log in
id, host_key     the private keys: links into the secrets' folder
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kedge import untrusted
from kedge.contract import PEERS_FILE_VARIABLE, converted_role
from kedge.runtime.actions.base import ActionFailed
from kedge.runtime.files import link, read_file, write_file

FOLDER = "ssh"  # below <pai>
HOST_ALIAS = "kedge-job"  # the name in known_hosts: addresses and ports change with every attempt, the key does not
LABEL = "ssh"  # of the port
# With -F, OpenSSH reads none of its usual files.
_OTHERS = "\n# What applies to other hosts.\nMatch all\n    Include ~/.ssh/config\n    Include /etc/ssh/ssh_config\n"


class SshTask(NamedTuple):
    """One task of the job as a client sees it. Without an address or a port it cannot be reached."""

    role: str
    number: int
    host: str | None
    port: int | None


def folder(pai: str) -> str:
    """The folder of ssh in a task."""
    return f"{pai}/{FOLDER}"


def write(pai: str, key: str | None, host_key: str, known_key: str, authorized: Sequence[str]) -> None:
    """Write all files but `config`. `key` is the job's private key, None if tasks do not reach each other. OSError."""
    place = folder(pai)
    os.makedirs(place, 0o700, exist_ok=True)
    os.chmod(place, 0o700)
    _write_secret(pai, "host_key", host_key)
    if key is not None:
        _write_secret(pai, "id", key)
    write_file(f"{place}/known_hosts", f"{HOST_ALIAS} {known_key}\n".encode(), 0o600)
    write_file(f"{place}/authorized_keys", "".join(f"{line}\n" for line in authorized).encode(), 0o600)


def write_config(pai: str, tasks: Sequence[SshTask]) -> None:
    """Write the client's configuration. OSError."""
    write_file(f"{folder(pai)}/config", client_config(folder(pai), tasks).encode(), 0o600)


def client_config(place: str, tasks: Sequence[SshTask]) -> str:
    """The configuration for clients that have the files `id` and `known_hosts` in the folder `place`."""
    blocks = []
    for task in tasks:
        if task.host is None or task.port is None:
            continue
        blocks.append(
            f"""
Host {" ".join(names(task, tasks))}
    HostName {task.host}
    Port {task.port}
    User root
    IdentityFile "{place}/id"
    IdentitiesOnly yes
    UserKnownHostsFile "{place}/known_hosts"
    GlobalKnownHostsFile /dev/null
    HostKeyAlias {HOST_ALIAS}
    StrictHostKeyChecking yes
    ForwardAgent no
"""
        )
    return "# The tasks of this job. kedge writes this file anew when a task starts.\n" + "".join(blocks) + _OTHERS


def names(task: SshTask, tasks: Sequence[SshTask]) -> Iterator[str]:
    """The names of a task: by its role, and by the role's name in Kubernetes where that is unambiguous."""
    yield f"{task.role}-{task.number}"
    converted = converted_role(task.role)
    same = {other.role for other in tasks if converted in (converted_role(other.role), other.role)}
    if converted != task.role and same == {task.role}:
        yield f"{converted}-{task.number}"


def tasks_of_job(environment: Mapping[str, str]) -> list[SshTask]:
    """All tasks of the job, from the peers file; none without that. ActionFailed: it is damaged."""
    path = environment.get(PEERS_FILE_VARIABLE)
    if not path:
        return []
    try:
        roles = untrusted.parse(read_file(path))["roles"]
        return [_task(role, index, each) for role, listed in roles.items() for index, each in enumerate(listed)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ActionFailed(f"the addresses of the job's tasks cannot be read from {path}: {error}") from error


def _task(role: str, index: int, found: Mapping[str, Any]) -> SshTask:
    ports = found["ports"].get(LABEL) or [None]
    return SshTask(role, index, found["host"], ports[0])


def _write_secret(pai: str, name: str, text: str) -> None:
    """Write a private key where the job's secrets are, which is in memory if possible, and link it from ssh's folder.
    OpenSSH refuses keys that others could read, so it is a file of the task's own user."""
    place = f"{pai}/secrets/{os.environ.get('FC_POD_UID', 'task')}"
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        path = os.path.realpath(f"{place}/ssh-{name}")
        write_file(path, text.encode(), 0o600)
    except OSError:  # a pod of OpenPAI mounts the job's secrets there, read-only
        write_file(f"{folder(pai)}/{name}", text.encode(), 0o600)
        return
    link(path, f"{folder(pai)}/{name}")
