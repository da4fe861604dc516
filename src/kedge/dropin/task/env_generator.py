"""Init program: Write a framework's variables. `genenv FILE` only prints them, as OpenPAI's program does."""

from __future__ import annotations

import os

from kedge.dropin.paths import ENV_FILE, PEERS_FILE, PORT_LIST, RUNTIME_ENV
from kedge.dropin.program import FAILED, SUCCEEDED, InitContext
from kedge.dropin.task import framework
from kedge.dropin.task.framework import Framework, InvalidFramework
from kedge.dropin.task.own_task import NoOwnTask, ThisTask, names_in_job, own_task, peers
from kedge.light import json
from kedge.light.types import Sequence
from kedge.own_files import replace_file, write_all
from kedge.peers import EnvironmentVariable, Peers, peer_variables, shell_file

GENENV = "genenv"
DEFAULT_FILE = "framework.json"
_USAGE = "expected the arguments [genenv] FILE; FILE defaults to framework.json"
_ENV_FILE_LIMIT = 100_000  # bytes; above it, the file has only what concerns this task
_STDOUT = 1


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Write runtime_env.sh, the peers, the list of the task's ports and the file `env`."""
    words = [word for word in arguments if word != GENENV]
    if len(words) > 1:
        context.log.error(_USAGE)
        return FAILED
    found = read(words[0] if words else DEFAULT_FILE, context)
    if found is None:
        return FAILED
    job = write(found, context, in_config=(), only_print=len(words) < len(arguments))
    return FAILED if job is None else SUCCEEDED


def read(file: str, context: InitContext) -> Framework | None:
    """The framework in a file; None, with the reason in the log, if it cannot be read."""
    try:
        return framework.read(file)
    except OSError as error:
        context.log.error(f"{file} cannot be read: {error.strerror}; frameworkBarrier or frameworkRetriever writes it")
    except InvalidFramework as error:
        context.log.error(f"{file} {error}")
    return None


def write(
    found: Framework, context: InitContext, in_config: Sequence[str], only_print: bool = False
) -> tuple[ThisTask, Peers] | None:
    """Write the files, or print runtime_env.sh. Returns this task and all tasks; None, with the reason in the log, if
    the task is not in the framework. `in_config` are the names of the roles in the job's configuration, if known."""
    names = names_in_job(found, context.environment, in_config)
    try:
        own = own_task(found, names, context.environment)
        tasks = peers(found, names, own, context.environment)
    except NoOwnTask as error:
        context.log.error(f"{error}; FrameworkController sets these variables in every pod")
        return None
    except InvalidFramework as error:
        context.log.error(f"the framework {error}")
        return None
    variables = tuple(peer_variables(own.role, own.number, tasks))
    if only_print:
        write_all(_STDOUT, shell_file(variables))
    else:
        _write(variables, own, tasks, context)
    return own, tasks


def _write(variables: tuple[EnvironmentVariable, ...], own: ThisTask, tasks: Peers, context: InitContext) -> None:
    folder = context.paths.runtime_d
    os.makedirs(folder, exist_ok=True)
    replace_file(f"{folder}/{RUNTIME_ENV}", shell_file(variables), 0o644, synced=False)
    replace_file(f"{folder}/{ENV_FILE}", _env_file(variables), 0o644, synced=False)
    roles = {role: [task._asdict() for task in listed] for role, listed in tasks.items()}
    replace_file(f"{folder}/{PEERS_FILE}", json.dumps({"roles": roles}).encode(), 0o644, synced=False)
    this = tasks[own.role][own.number]
    numbers = [number for ports in this.ports.values() for number in ports]
    replace_file(PORT_LIST, "".join(f"{number}\n" for number in numbers).encode(), 0o644, synced=False)
    _log(own, tasks, context)


def _env_file(variables: tuple[EnvironmentVariable, ...]) -> bytes:
    """The same variables as NAME=VALUE lines."""
    whole = "".join(f"{name}={value}\n" for name, value, _ in variables)
    if len(whole) > _ENV_FILE_LIMIT:
        whole = "".join(f"{name}={value}\n" for name, value, shared in variables if not shared)
    return whole.encode("utf-8", "surrogateescape")


def _log(own: ThisTask, tasks: Peers, context: InitContext) -> None:
    context.log.info(f"this is task {own.number} of the task role {own.role}; the job has {_counts(tasks)}")
    this = tasks[own.role][own.number]
    if not this.host:
        context.log.warning(
            "the address of this task's host is not known; set HOST_IP by the downward API to status.hostIP"
        )
    missing = [f"{role}:{n}" for role, listed in tasks.items() for n, task in enumerate(listed) if not task.host]
    if missing:
        more = ", …" if len(missing) > 10 else ""
        context.log.info(f"tasks whose address is not known yet: {', '.join(missing[:10])}{more}")


def _counts(tasks: Peers) -> str:
    return ", ".join(f"{role}: {len(listed)}" for role, listed in tasks.items())
