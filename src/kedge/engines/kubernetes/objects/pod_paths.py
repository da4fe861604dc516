"""What runs in the containers of a job's pods, and the paths of their volumes."""

from __future__ import annotations

from kedge.link import pod_folders
from kedge.link.pod_folders import (
    ADDRESS_FILE,
    AGENT_FOLDER,
    BUNDLE,
    CODE_PIECES,
    CONTROL,
    JOB_FOLDER,
    LOGS,
    OUTPUT,
    PAI,
    PEERS,
    SCRIPTS,
    SECRETS,
    SHARED,
    SNAPSHOT,
    SPEC,
    STATUS,
    TOKEN_FILE,
)

__all__ = [
    "ADDRESS_FILE", "ADDRESS_FOLDER", "AGENT_COMMAND", "AGENT_FOLDER", "BUNDLE", "CODE_OPTION", "CODE_PIECES",
    "CODE_VOLUME", "CONTROL", "DRIVER_COMMAND", "IMAGE_BUNDLE", "JOBS", "JOB_FOLDER", "JOIN_COMMAND", "LOGS",
    "NODE_VARIABLE", "ORDERS_VARIABLE", "OUTPUT", "OUTPUTS_VOLUME", "PAI", "PEERS", "PREPARE_COMMAND", "SCRIPTS",
    "SECRETS", "SEED", "SEED_FOLDER", "SERVE_COMMAND", "SHARED", "SHARED_CODE_OPTION", "SNAPSHOT", "SPEC", "STATUS",
    "SUPERVISOR_COMMAND", "TOKEN_FILE", "TOKEN_FOLDER", "TOKEN_KEY",
]  # fmt: skip

IMAGE_BUNDLE = "/opt/kube-runtime/kedge"  # in the runtime's image: kedge.bundle.tree.BUNDLE

# Where the volumes are mounted whose files pod_folders names.
TOKEN_FOLDER, _, TOKEN_KEY = pod_folders.TOKEN_FILE.rpartition("/")
ADDRESS_FOLDER = pod_folders.ADDRESS_FILE.rpartition("/")[0]

# Of the driver.
SEED_FOLDER = "/kedge/seed"
SEED = f"{SEED_FOLDER}/seed.tar.gz"
JOBS = "/kedge/jobs"  # with the run folder
CODE_VOLUME = "/kedge/code-volume"  # the site's volume for the code of all runs, or one of the driver alone
OUTPUTS_VOLUME = "/kedge/outputs"  # the site's volume with the outputs of all runs

ORDERS_VARIABLE = "KEDGE_AGENT_ORDERS"
NODE_VARIABLE = "KEDGE_NODE"

# Any image's entry point: a shell of the bundle itself, so the image needs none. It takes what the image sets for its
# own dynamic loader away from the runtime's, and is then replaced by the supervisor.
_START = (f"{BUNDLE}/shell/busybox", "sh", f"{BUNDLE}/runtime")
SUPERVISOR_COMMAND = (*_START, SPEC, "--wait-spec", "--status", STATUS, "--control", CONTROL)
# In the task's container, before a program and its arguments: it runs as if the task had started it. Alone: its shell.
JOIN_COMMAND = (*_START, "--join", "1")

# In containers of the runtime's image.
PREPARE_COMMAND = (f"{IMAGE_BUNDLE}/prepare-pod",)
CODE_OPTION = "--code"  # its value follows: RolePlan.code, the folder of the code that the role starts in
SHARED_CODE_OPTION = "--shares-code"  # the task starts in it as it is, read-only, instead of in a copy of its own
AGENT_COMMAND = (
    f"{IMAGE_BUNDLE}/agent", "--pod", "--node-variable", NODE_VARIABLE, "--orders-variable", ORDERS_VARIABLE,
    "--token-file", pod_folders.TOKEN_FILE, "--index",
)  # fmt: skip  # the index of the task in its role follows
DRIVER_COMMAND = (f"{IMAGE_BUNDLE}/driver",)  # the run folder follows
SERVE_COMMAND = (f"{IMAGE_BUNDLE}/serve-run",)  # the same
