"""Where things are in the pod of a task: its folders as its containers see them, which are those of a task in a
container, and the agent's own. The supervisor and the agent are in two containers, perhaps as two users."""

from __future__ import annotations

from kedge.contract import FETCHED_DIR, JOB_DIR, OUTPUT_DIR, PAI_HOME, RUNTIME_D, SPEC_FILE

PAI = PAI_HOME  # a volume of all containers; whatever is in it, the task can change
BUNDLE = f"{PAI}/kedge"
SHARED = f"{PAI}/shared"  # between agent and supervisor
SPEC = f"{SHARED}/{SPEC_FILE}"
PEERS = f"{SHARED}/peers.json"
STATUS = f"{SHARED}/status"  # FIFOs: the supervisor's events, and requests to it
CONTROL = f"{SHARED}/control"
SECRETS = f"{PAI}/secrets"  # in memory
LOGS = f"{PAI}/logs"  # with one folder for the attempt: TaskSpec.folder
SCRIPTS = f"{PAI}/scripts"  # where tasks with code start, in a folder below it
SNAPSHOT = f"{PAI}/snapshot"  # of the code, for the supervisor to copy
OUTPUT = f"{PAI}/{OUTPUT_DIR}"
JOB_FOLDER = f"{PAI}/{JOB_DIR}"
OPEN_FOLDERS = (f"{PAI}/{RUNTIME_D}", f"{PAI}/{FETCHED_DIR}")  # the supervisor's besides

# Of kedge's own containers only.
AGENT_FOLDER = "/kedge/agent"
TOKEN_FILE = "/kedge/token/token"
ADDRESS_FILE = "/kedge/address/address.json"  # where the controller is; another one writes it again
CODE_PIECES = "/kedge/code"  # files which in the order of their names are a tar.gz of the code
