"""Where the init phase reads and writes. Every place can be set by a variable; the defaults are those of OpenPAI's
runtime image."""

from __future__ import annotations

import os

from kedge.contract import PAI_HOME
from kedge.light.types import Mapping, NamedTuple

WORK_VARIABLE = "PAI_WORK_DIR"
CONFIG_VARIABLE = "PAI_CONFIG_DIR"
RUNTIME_VARIABLE = "PAI_RUNTIME_DIR"
LOG_VARIABLE = "PAI_LOG_DIR"
_UIDS = ("FC_POD_UID", "POD_UID")  # of the pod: FrameworkController's, and the usual one for the downward API
# What to run without a framework: the runtime specification, or the command that OpenPAI's REST server sets.
SPEC_VARIABLE, SPEC_FILE = "RUNTIME_CONFIG", "runtime_plugin.yaml"
COMMAND_VARIABLE, COMMAND_FILE_VARIABLE = "USER_CMD", "USER_CMD_FILE"
# Names of files in the runtime's folder.
RUNTIME_ENV = "runtime_env.sh"
JOB_CONFIG = "job_config.yaml"
EXIT_SPEC = "runtime-exit-spec.yaml"
TASK_SPEC = "kedge-task.json"  # what `runtime` without arguments runs
ENV_FILE = "env"  # NAME=VALUE lines for the user's container
PEERS_FILE = "kedge-peers.json"  # the addresses and ports of all tasks
PORT_LIST = "portListFile"  # the task's own ports, one a line; in the current folder


class InitPaths(NamedTuple):
    """Absolute paths. `secrets`, `user_extension` and `token` are files that may not exist."""

    work: str
    config: str
    init_d: str
    runtime_d: str
    logs: str
    secrets: str
    user_extension: str
    token: str


def init_paths(environment: Mapping[str, str]) -> InitPaths:
    """The paths for an environment."""
    work = environment.get(WORK_VARIABLE) or PAI_HOME
    config = environment.get(CONFIG_VARIABLE) or first_existing(f"{work}-config", f"{work}/config")
    return InitPaths(
        work=work,
        config=config,
        init_d=f"{work}/init.d",
        runtime_d=environment.get(RUNTIME_VARIABLE) or f"{work}/runtime.d",
        logs=environment.get(LOG_VARIABLE) or f"{work}/logs/{pod_uid(environment)}",
        secrets=first_existing(
            *(mounted_file(f"{config}/{name}") for name in ("secrets.yaml", "secret.yaml")),
            f"{work}/secrets/secrets.yaml",
        ),
        user_extension=f"{work}/user-extension-secrets/userExtensionSecrets.yaml",
        token=f"{work}/token-secrets/token",
    )


def pod_uid(environment: Mapping[str, str]) -> str:
    """The pod's unique name; the host's name where nobody gives one."""
    return next((environment[name] for name in _UIDS if environment.get(name)), os.uname().nodename)


def first_existing(*paths: str) -> str:
    """The first path that exists, or the first one."""
    return next((path for path in paths if os.path.exists(path)), paths[0])


def mounted_file(path: str) -> str:
    """The file at `path`. A pod that mounts a whole ConfigMap or Secret at a file's path makes a folder of it; then it
    is the file of the same name in there, or the only one."""
    if not os.path.isdir(path):
        return path
    inside = f"{path}/{os.path.basename(path)}"
    names = [name for name in os.listdir(path) if not name.startswith("..")]  # ..data is Kubernetes' own
    return f"{path}/{names[0]}" if not os.path.exists(inside) and len(names) == 1 else inside
