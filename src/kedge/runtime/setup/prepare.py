"""What is prepared before any user code runs: secrets, environment, shell, scripts."""

from __future__ import annotations

import os

from kedge import contract
from kedge.contract import TaskSpec
from kedge.light import json
from kedge.light.types import Callable, NamedTuple
from kedge.peers import Peers, shell_file
from kedge.runtime.files import read_file, write_file
from kedge.runtime.logs.runtime_log import RuntimeLog
from kedge.runtime.setup import environment, peers, scripts
from kedge.runtime.setup.scripts import ScriptFolder, Shell


class CannotStart(Exception):
    """The task cannot run as specified. `code` is the exit code that a shell has for this failure, if there is one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        self.code = code
        super().__init__(message)


class PreparedTask(NamedTuple):
    """All that is needed to run a script. `environment` grows with the variables that start hooks export; `tasks` is
    the number of known tasks of the job."""

    environment: dict[str, str]
    shell: Shell
    options: str  # the first lines of user.sh
    scripts: ScriptFolder
    secrets: dict[str, str]
    tasks: int


def read_secrets(spec: TaskSpec) -> dict[str, str]:
    """The values of the job's secrets by key. CannotStart when a script refers to one that is missing."""
    wanted = list(scripts.secret_references(spec))
    values: dict[str, str] = {}
    if spec.secrets_dir and (wanted or spec.mask):
        values = _read_values(f"{spec.secrets_dir}/{contract.SECRET_VALUES}")
    for reference in wanted:
        if reference.key not in values:
            raise CannotStart(f"{reference.source} refers to a secret that the job does not have: {reference.key}")
    return values


def prepare(
    spec: TaskSpec, secrets: dict[str, str], log_pipe: str | None, log: RuntimeLog, has_pipefail: Callable[[str], bool],
    site: str | None = None,
) -> PreparedTask:  # fmt: skip
    """Build the environment, find the shell and make the script folder. CannotStart describes what is wrong. `site` is
    the folder of installed packages, if there is one."""
    tasks_by_role = _peers(spec)
    variables = _environment(spec, tasks_by_role, log_pipe, log, secrets)
    shell = scripts.find_shell(variables.get("PATH"), spec.workdir, has_pipefail)
    if shell is None:
        raise CannotStart(_no_shell(variables.get("PATH", "")), contract.SHELL_NOT_FOUND)
    if not shell.pipefail:
        log.warning(f"{shell.path} has no pipefail: a pipeline fails only if its last command fails")
    tasks = sum(map(len, tasks_by_role.values()))
    if _has_job_ssh(spec):
        from kedge.runtime.setup import ssh_commands

        ssh_commands.write(spec, shell.path, site, tasks_by_role)
        variables |= ssh_commands.variables(spec, variables, tasks_by_role)
    return PreparedTask(variables, shell, scripts.command_options(shell), ScriptFolder(spec, secrets), secrets, tasks)


def _has_job_ssh(spec: TaskSpec) -> bool:
    """Whether the job's tasks reach each other by ssh."""
    actions = [callback.action for step in spec.steps for callback in step.callbacks if callback.action]
    return any(
        action.kind in (contract.SSH_SERVER, contract.SSH_BARRIER) and action.parameters.get("jobssh", True)
        for action in actions
    )


def _no_shell(path: str) -> str:
    if os.path.exists("/bin/sh"):
        return f"neither bash nor sh is on the task's PATH ({path}), but /bin/sh exists: add /bin to PATH"
    return (
        f"the image has no /bin/sh and no bash or sh on its PATH ({path}), but commands need a shell: use an image "
        "that has one (busybox is enough)"
    )


def _read_values(path: str) -> dict[str, str]:
    try:
        values = json.loads(read_file(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CannotStart(f"the job's secrets cannot be read from {path}: {error}") from error
    return {str(key): str(value) for key, value in values.items()}


def _peers(spec: TaskSpec) -> Peers:
    try:
        return peers.read_peers(spec)
    except (OSError, ValueError) as error:
        raise CannotStart(f"the addresses of the job's tasks cannot be read from {spec.peers_file}: {error}") from error


def _environment(
    spec: TaskSpec, tasks_by_role: Peers, log_pipe: str | None, log: RuntimeLog, secrets: dict[str, str]
) -> dict[str, str]:
    built = environment.build(os.environ, spec, tasks_by_role, log_pipe, secrets, _last_variables(spec, log))
    file = f"{spec.runtime_d}/runtime_env.sh"
    write_file(file, shell_file(built.generated))
    if built.dropped:
        name, size = built.dropped[0]
        log.warning(
            "the addresses of the other tasks do not all fit into the environment: "
            f"{len(built.dropped)} variables with {sum(size for _, size in built.dropped)} bytes are left out, the "
            f"largest being {name} with {size} bytes; "
            f"all are in {file}, and as JSON in {spec.peers_file} ({contract.PEERS_FILE_VARIABLE})"
        )
    return built.variables


def _last_variables(spec: TaskSpec, log: RuntimeLog) -> dict[str, str]:
    """The variables that programs of the init phase have left for the task."""
    if not spec.env_file:
        return {}
    try:
        variables, wrong = environment.parse_lines(read_file(spec.env_file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CannotStart(f"{spec.env_file} cannot be read: {error.strerror}") from error
    if wrong:
        log.warning(f"lines of {spec.env_file} that are not NAME=VALUE are ignored: {', '.join(map(repr, wrong[:5]))}")
    return variables
