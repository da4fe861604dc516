"""Connects to a running task with the key of its job. What a client needs for that are files beside the secrets."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kedge import untrusted
from kedge.contract import JOB_SSH_HOST_KEY, JOB_SSH_KEY, SECRET_VALUES, SSH_SERVER
from kedge.engines.base import Task
from kedge.errors import CannotRun, InputError
from kedge.jobs import runs, ssh_keys, task_names
from kedge.own_files import replace_file
from kedge.runs import copies, status
from kedge.runs.folder import Run
from kedge.states import State

SERVICE = "ssh"
_HOST_KEY_NAME = "kedge-job"
_LARGEST = 16 << 20  # bytes of the file with the secrets
_OWN_CLIENT = Path(__file__).parents[1] / "runtime"


def config(found: Run, name: str) -> tuple[str, str]:
    """The path of a client's configuration for the task with this name, and the name of its host there. The file and
    the key that it names exist until the job ends. InputError: the task has no ssh, or is not running."""
    task = Task(*task_names.find_one(found, name))
    _check_served(found, task)
    host, port = _address(found, task)
    folder = Path(runs.engine_of(found).secrets_dir(found)) / "ssh"
    try:
        values = _secrets(found, folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CannotRun(f"the keys of {found.id} cannot be read: {error}") from None
    alias = f"{found.id}-{task.role}-{task.task_index}"
    known = ssh_keys.public_line(values[JOB_SSH_HOST_KEY])
    replace_file(folder / "known_hosts", f"{_HOST_KEY_NAME} {known}\n".encode())
    replace_file(folder / "id", values[JOB_SSH_KEY].encode())
    proxy = copies.tunnel(found, task.role, task.task_index, host, port)
    text = _block(alias, host, port, folder, with_key=_has_job_key(found, task), proxy=proxy)
    path = folder / f"{alias}.config"
    replace_file(path, text.encode())
    return str(path), alias


def _secrets(found: Run, folder: Path) -> dict[str, str]:
    """The values of the job's secrets, by name. OSError, ValueError."""
    if found.cluster.exists:
        copies.fetch_secrets(found)
        values: dict[str, str] = found.cluster.read(found.cluster.secrets)["texts"]
    else:
        values = json.loads(untrusted.read_path(str(folder / SECRET_VALUES), _LARGEST))
    return values


def argv(path: str, host: str, words: Sequence[str]) -> list[str]:
    """The command that connects: OpenSSH's client if there is one, else kedge's own. `words` are options of ssh before
    `--`, and the command after it."""
    client = shutil.which("ssh")
    own = [sys.executable, str(_OWN_CLIENT), "--ssh", "", "ssh"]
    return [*([client] if client else own), "-F", path, host, *words]


def _address(found: Run, task: Task) -> tuple[str, int]:
    """The host and the port of the task's server."""
    path = found.peers(found.attempts()[-1])
    try:
        place = untrusted.read_json(found.path, str(path.relative_to(found.path)), _LARGEST)["roles"]
        peer = place[task.role][task.task_index]
        return str(peer["host"]), int(peer["ports"][SERVICE][0])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CannotRun(f"the address of {task} of {found.id} cannot be read from {path}: {error!r}") from None


def _check_served(found: Run, task: Task) -> None:
    """InputError: the task has no ssh server now."""
    (state,) = (each for each in status.read(found).tasks if (each.role, each.index) == task)
    if not _servers(found, task):
        raise InputError(
            f"{task} of {found.id} has no ssh; add the plugin ssh with jobssh: true to its job file (docs/ssh.md), "
            f"or use kedge exec {found.id} {task}"
        )
    if state.state not in (State.LAUNCHED, State.RUNNING):
        raise InputError(f"{task} of {found.id} is not running: its state is {state.state}")
    service = next((each for each in state.services if each.name == SERVICE), None)
    if service is None:
        raise InputError(f"ssh has not started yet in {task} of {found.id}; try again in a moment")
    if not service.running:
        raise InputError(
            f"the ssh server of {task} of {found.id} has ended; "
            f"kedge logs {found.id} {task} --stream runtime shows why; "
            f"kedge exec {found.id} {task} works without it while the task runs"
        )


def _servers(found: Run, task: Task) -> list[dict[str, object]]:
    """The parameters of the task's ssh servers, by the plan of the run."""
    try:
        plan = found.plan()
    except (OSError, ValueError) as error:
        raise CannotRun(f"the plan of {found.id} cannot be read: {error}") from None
    steps = [step for role in plan.get("roles", ()) if role["name"] == task.role for step in role["steps"]]
    actions = [callback.get("action") for step in steps for callback in step["callbacks"]]
    return [action["parameters"] for action in actions if action and action["kind"] == SSH_SERVER]


def _has_job_key(found: Run, task: Task) -> bool:
    return any(parameters.get("jobssh") for parameters in _servers(found, task))


def _block(alias: str, host: str, port: int, folder: Path, *, with_key: bool, proxy: str) -> str:
    key = f'    IdentityFile "{folder}/id"\n    IdentitiesOnly yes\n' if with_key else ""
    key += f"    ProxyCommand {proxy.replace('%', '%%')}\n" if proxy else ""
    return f"""\
Host {alias}
    HostName {host}
    Port {port}
{key}    UserKnownHostsFile "{folder}/known_hosts"
    GlobalKnownHostsFile /dev/null
    HostKeyAlias {_HOST_KEY_NAME}
    StrictHostKeyChecking yes
    ForwardAgent no
"""
