"""The interface between the machine that submits a job and the supervisor beside the user's command.

The input is a TaskSpec (a JSON file); the output is events (JSON lines) and one Report (a JSON file). Constants below
name the files. The runtime imports this module at every task start, so it uses only the cheap part of the standard
library and kedge.light.
"""

from __future__ import annotations

import time

from kedge.light.types import Any, Iterable, Mapping, MappingProxyType, NamedTuple

# The events of hooks, in their canonical spelling.
TASK_STARTS = "taskStarts"
TASK_SUCCEEDS = "taskSucceeds"
TASK_FAILS = "taskFails"
CONTAINER_EXIT = "containerExit"
BEFORE_STOP = "beforeStop"
HOOK_EVENTS = (TASK_STARTS, TASK_SUCCEEDS, TASK_FAILS, CONTAINER_EXIT, BEFORE_STOP)

# Actions that belong to the ssh of a job.
SSH_SERVER, SSH_BARRIER = "ssh-server", "ssh-barrier"

# Environment. The kernel refuses single strings above 128 KiB and a total above about 2 MiB; these limits leave room.
ENVIRONMENT_STRING_LIMIT = 100_000
ENVIRONMENT_TOTAL_LIMIT = 1 << 20
PEERS_FILE_VARIABLE = "KEDGE_PEERS_FILE"
JOB_ID_VARIABLE = "KEDGE_JOB_ID"
OUTPUT_DIR_VARIABLE = "KEDGE_OUTPUT_DIR"
JOB_DIR_VARIABLE = "KEDGE_JOB_DIR"
# For hooks that run before the command is stopped.
COMMAND_PID_VARIABLE = "KEDGE_COMMAND_PID"  # the command's shell, and the id of its process group
PROGRAM_PIDS_VARIABLE = "KEDGE_PROGRAM_PIDS"  # the programs that the shell runs, in the order of their start
RUNTIME_LOG_PIPE_VARIABLE = "RUNTIME_LOG_PIPE"

# Variables that an image sets for its own dynamic loader (ld.so(8)) must not reach the loader of the runtime's Python.
# The process that starts the runtime empties or unsets those that the image sets, and stores their values under
# SHELVED + name; the runtime restores them for hooks and the command.
LOADER_VARIABLES = ("LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_PROFILE", "GLIBC_TUNABLES")
SHELVED = "KEDGE_IMAGE_"

# Exit codes of a container. A user's exit code is never passed on unchanged: codes of signals keep their row of the
# exit spec, everything else is 255, and 1 means that the runtime itself failed.
RUNTIME_BROKE = 1
PREREQUISITE_TRANSIENT = 250  # an action failed transiently: the task should be tried again
UNRECOGNISED = 255
SIGNAL_CODES = frozenset({130, 131, 132, 134, 135, 136, 137, 139, 141, 143})
STOPPED_BY_USER = -210
STOPPED_BY_COMPLETION = -220
STOPPED_BY_TIME_LIMIT = -1004  # of the whole job

# A program's exit code as shells show it.
SHELL_TIMED_OUT = 124  # of timeout(1)
SHELL_CANNOT_EXECUTE = 126
SHELL_NOT_FOUND = 127
SHELL_KILLED = 137  # by SIGKILL
SHELL_TERMINATED = 143  # by SIGTERM

# Why a task ended, in a Report.
SUCCEEDED = "succeeded"
COMMAND_FAILED = "command-failed"
COMMAND_KILLED = "command-killed"
HOOK_FAILED = "hook-failed"
CANNOT_START = "cannot-start"
DISK_FULL = "disk-full"
RUNTIME_ERROR = "runtime-error"
TIME_LIMIT = "time-limit"  # stopped because a time limit of the job file has passed
PERHAPS_MEMORY = "perhaps-memory"  # SIGKILL from an unknown sender, often the kernel's OOM killer; one retry at most

# The events that a supervisor reports while it runs: the key `event` in the lines of a task's events.jsonl.
STARTING = "starting"
HOOK_STARTED = "hook-started"
HOOK_RETRYING = "hook-retrying"
HOOK_FINISHED = "hook-finished"
RUNNING = "running"
EXITED = "exited"
STOPPING = "stopping"
STOP_ANNOUNCED = "stop-announced"
HELD = "held"  # hold_sec, code, message: the task has failed and stays alive for a while
SERVICE_STARTED = "service-started"  # name, address, pid; again when its address has become known or has changed
SERVICE_ENDED = "service-ended"  # name, code, signal, task_over: whether the task has ended it
NOTICE = "notice"  # who announced it: the place where the task runs, not a time limit
FINISHED = "finished"


class SecretRef(NamedTuple):
    """A placeholder for a secret in a text. `key` is for example `token` or `keys[0].name`; `source` is the tag."""

    key: str
    source: str


Text = tuple[str | SecretRef, ...]


def show_text(text: Text) -> str:
    """The text as the user wrote it, with secrets as their tags."""
    return "".join(part if isinstance(part, str) else part.source for part in text)


def render_text(text: Text, secrets: Mapping[str, str]) -> str:
    """The text with the values of its secrets. KeyError names a secret that is missing."""
    return "".join(part if isinstance(part, str) else secrets[part.key] for part in text)


def join_text(parts: Iterable[str | SecretRef]) -> Text:
    """The parts as a Text, with adjacent strings joined."""
    joined: list[str | SecretRef] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(joined)


def text_to_json(text: Text) -> list[Any]:
    """The parts of a text as JSON; a secret becomes the mapping of its SecretRef."""
    return [part if isinstance(part, str) else part._asdict() for part in text]


def text_from_json(parts: list[Any]) -> Text:
    """The inverse of `text_to_json`."""
    return tuple(part if isinstance(part, str) else SecretRef(**part) for part in parts)


class Action(NamedTuple):
    """Work that the runtime does itself, without a shell. `kind` is `git` or `download`.

    `parameters` are JSON values. A string that contains a secret is {"text": [...]}, see `text_to_json`.
    """

    kind: str
    parameters: dict[str, Any]


class Callback(NamedTuple):
    """What one step does at one event (one of HOOK_EVENTS): a shell script, or an action instead. With `service`, a
    name, it is a program that runs beside the command until the task ends; only at TASK_STARTS. The hooks after it
    start once it is ready: a script at once, an action when it reports that."""

    event: str
    script: Text = ()
    action: Action | None = None
    service: str | None = None


class Retry(NamedTuple):
    """Up to `max` more tries after the first one fails, `delay_sec` apart."""

    max: int = 0
    delay_sec: float = 0.0


class Step(NamedTuple):
    """What one prerequisite or runtime plugin does before and after the user's command.

    Start callbacks run in the order of the steps, all others in exactly the reverse order. `policy` is `fail` or
    `ignore` (a failing hook is then only logged). `timeout_sec` limits each try. `environment` is set for the step's
    own scripts, for later hooks and for the command.
    """

    name: str
    callbacks: tuple[Callback, ...]
    policy: str = "fail"
    retry: Retry = Retry()
    timeout_sec: float | None = None
    environment: Mapping[str, str] = MappingProxyType({})


# Which processes of a task get its stop signal.
STOP_GROUP = "group"  # the process group of the command
STOP_COMMAND = "command"  # only the command's own process


class StopPolicy(NamedTuple):
    """How a task is stopped: `signal` first, to STOP_GROUP or STOP_COMMAND; SIGKILL to all processes of the task after
    `grace_sec` seconds."""

    signal: str = "TERM"
    grace_sec: float = 30.0
    target: str = STOP_GROUP


JOB_TIME_LIMIT = "extras.kedge.timeLimit"  # the key of the limit of the whole run
SITE_TIME_LIMIT = "limits.job.timeLimit"  # the same, if the site's settings set it
# The same, if a cluster gives the job's tasks a place for so long only.
ALLOCATION_TIME_LIMIT, PARTITION_TIME_LIMIT = "extras.slurm.time", "the partition's time limit"
NOT_RENEWED = "the cluster has refused another one"
TIME_LIMITS_OF_ALLOCATION = (ALLOCATION_TIME_LIMIT, PARTITION_TIME_LIMIT, NOT_RENEWED)
TIME_LIMITS_OF_RUN = (JOB_TIME_LIMIT, SITE_TIME_LIMIT, *TIME_LIMITS_OF_ALLOCATION)


class TaskTimeLimit(NamedTuple):
    """A time limit for one task attempt. `key` is the key of the job file, or of the site's settings, that sets it to
    `limit_sec`. `left_sec` is what is left of it when the supervisor starts; None if it begins with the attempt."""

    key: str
    limit_sec: float
    left_sec: float | None = None

    @property
    def message(self) -> str:
        """What happened to a task that reached the limit."""
        whose = "the time of its allocation is over; " if self.key == NOT_RENEWED else ""
        return f"stopped after {duration_text(self.limit_sec)} ({whose}{self.key})"


class LogPolicy(NamedTuple):
    """The limits of each of the three streams: one current file of at most `file_bytes`, and `kept_files` rotated ones.

    With `console`, the user's streams and runtime.log are also copied to the runtime's own stdout and stderr.
    """

    file_bytes: int = 268_435_456
    kept_files: int = 1
    console: bool = False


class TaskSpec(NamedTuple):
    """All that one attempt of one task needs to run. It contains no secret values.

    `environment` are the variables of kedge, `env` those of the user, which may refer to secrets.
    `rules` lists files with the site's or the user's own rules for causes of failures, compiled (.json) or as source.
    `exit_spec` is an exit specification in JSON that replaces the stock one. `env_file` is for pods whose variables are
    this job's own: PAI_* and FC_* are inherited, and the NAME=VALUE lines of that file, if it exists, come over all
    other variables. An empty `workdir` is the folder that the supervisor starts in. `pai_dir` is OpenPAI's folder
    /usr/local/pai where it really exists, as in a container; None for a substitute in `folder`. `output_dir` and
    `job_dir` are None for folders in `folder`. `code` is a folder that the supervisor copies to `workdir`; with None
    the working directory is used as it is. `outputs` are folders to make in the output folder. The attempt is
    stopped when the first of the `time_limits` has passed; `warn_before_sec` before that, the hooks before a stop run.
    A task that has failed is held for `hold_sec` before its exit hooks, unless the controller releases it earlier.
    """

    user: str
    job: str
    job_id: str
    role: str
    task_index: int
    job_attempt: int
    task_attempt: int
    uid: str
    folder: str
    workdir: str
    environment: dict[str, str]
    command: Text
    steps: tuple[Step, ...]
    host: str
    ports: dict[str, list[int]]
    peers_file: str
    secrets_dir: str | None = None
    mask: bool = True
    stop: StopPolicy = StopPolicy()
    logs: LogPolicy = LogPolicy()
    rules: tuple[str, ...] = ()
    exit_spec: str | None = None
    pai_dir: str | None = None
    env: Mapping[str, Text] = MappingProxyType({})
    output_dir: str | None = None
    job_dir: str | None = None
    code: str | None = None
    outputs: tuple[str, ...] = ()
    time_limits: tuple[TaskTimeLimit, ...] = ()
    warn_before_sec: float | None = None
    hold_sec: float | None = None
    env_file: str | None = None

    @property
    def output_folder(self) -> str:
        """The folder of the results of this attempt: KEDGE_OUTPUT_DIR."""
        return self.output_dir or f"{self.folder}/{OUTPUT_DIR}"

    @property
    def job_folder(self) -> str:
        """The folder that all tasks and attempts of the job share: KEDGE_JOB_DIR."""
        return self.job_dir or f"{self.folder}/{JOB_DIR}"

    @property
    def pai(self) -> str:
        """The folder /usr/local/pai, or its substitute."""
        return self.pai_dir or f"{self.folder}/{PAI_DIR}"

    @property
    def runtime_d(self) -> str:
        """The folder of the task's scripts."""
        return f"{self.pai}/{RUNTIME_D}"

    @property
    def task(self) -> str:
        """The task's name in messages, such as `worker:3`."""
        return f"{self.role}:{self.task_index}"

    def to_json(self) -> dict[str, Any]:
        """The JSON form, which `from_json` reads."""
        return self._asdict() | {
            "command": text_to_json(self.command),
            "env": {name: text_to_json(text) for name, text in self.env.items()},
            "steps": [_step_to_json(step) for step in self.steps],
            "stop": self.stop._asdict(),
            "logs": self.logs._asdict(),
            "time_limits": [limit._asdict() for limit in self.time_limits],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskSpec:
        """The inverse of `to_json`."""
        return cls(**data)._replace(
            command=text_from_json(data["command"]),
            env={name: text_from_json(parts) for name, parts in data.get("env", {}).items()},
            steps=tuple(_step_from_json(step) for step in data["steps"]),
            stop=StopPolicy(**data["stop"]),
            logs=LogPolicy(**data["logs"]),
            rules=tuple(data.get("rules", ())),
            time_limits=tuple(TaskTimeLimit(**limit) for limit in data.get("time_limits", ())),
            outputs=tuple(data.get("outputs", ())),
        )


class Report(NamedTuple):
    """How one attempt of one task ended; written last, as report.json.

    `exit_code` is the container's code (0, a row of the exit spec, 255, or 1); `user_exit_code` is the exit code of the
    user's command (or of the failed hook), 128+n for signal n, None if it never started. `started` and `ended` are
    times as in events. `stopped_by` names the first stop signal that the supervisor received, if any; `killed` means
    that the grace period ended with SIGKILL. `removed_bytes` counts the bytes that log rotation has deleted, by stream.
    `diagnosis` is the cause of the failure that kedge found (diagnose.model.Diagnosis as JSON); it never changes
    `exit_code`. `evidence` is what else the diagnosis used besides the logs: `facts` (numbers), `last_output` (a time
    or None), `progress` (the highest step, epoch and so on in the log).
    `hooks` lists the hooks that failed, including those with the policy `ignore`: `step`, `event`, `command` (the first
    command line that failed, None where the shell does not report it), `tries`, `code` (of the last try, as a shell
    exit code), `policy`. `time_limit` is the key of the time limit that ended the attempt, reached at `limit_reached`.
    `retry_after_sec` is the pause that a server asked for when it refused a request of the runtime.
    """

    task: str
    job_attempt: int
    task_attempt: int
    exit_code: int
    user_exit_code: int | None
    reason: str
    message: str
    started: str
    ended: str
    duration_sec: float
    stopped_by: str | None = None
    killed: bool = False
    removed_bytes: dict[str, int] | None = None
    diagnosis: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    hooks: list[dict[str, Any]] | None = None
    retry_after_sec: float | None = None
    time_limit: str | None = None
    limit_reached: str | None = None
    version: int = 1


# Files and folders in TaskSpec.folder, which is also the task's PAI_LOG_DIR.
SPEC_FILE = "spec.json"
EVENTS_FILE = "events.jsonl"
REPORT_FILE = "report.json"
TERMINATION_LOG = "pai-termination-log"  # a copy of the container's termination message
RUNTIME_LOG = "runtime.log"
SUPERVISOR_LOG = "supervisor.log"  # errors of the interpreter if the runtime cannot start
USER_STDOUT = "user-stdout"
USER_STDERR = "user-stderr"
USER_SCRIPT = "user.sh"  # in runtime.d: OPTION_LINES lines of the runtime, then the lines of the role's command
OPTION_LINES = 1
USER_ALL = "user-all"
STREAMS = (USER_ALL, USER_STDOUT, USER_STDERR)
LOG_TIMES = "log-times"  # when the bytes of a log were printed: for each log file an index of the same name below it
CURRENT = "current"  # the file of a stream that is being written; rotated ones are named @<24 hex digits>.s
ERROR_FILE = "error.json"  # into which torchelastic writes the exception of the worker that failed first
WORK_DIR = "work"  # the default working directory
OUTPUT_DIR = "output"  # KEDGE_OUTPUT_DIR
CODE_DIR = "code"  # the attempt's own copy of the code; in a run folder, the snapshot that the copies are made from
JOB_DIR = "job-dir"  # KEDGE_JOB_DIR, in the run folder
STORAGES_DIR = "storages"  # of links to the folders of storages, in the run folder of the local engine
PAI_DIR = "pai"  # the substitute for PAI_HOME
PAI_HOME = "/usr/local/pai"  # the same folder in a container
RUNTIME_D = "runtime.d"  # below PAI_DIR
DATA_CACHE_DIR = "data-cache"  # below PAI_DIR in a container: files named by their SHA-256, read-only for the task
FETCHED_DIR = "data-fetched"  # beside it: files that the task has fetched, for the controller to take into the cache

# In TaskSpec.secrets_dir (0700, memory-backed where possible, files 0600):
SECRET_VALUES = "values.json"  # {"token": "text", "keys[0].name": "text"}: every scalar in `secrets`
# The keys of a job's own ssh in SECRET_VALUES. Keys of users' secrets never contain a space outside of quotes.
JOB_SSH_KEY, JOB_SSH_HOST_KEY = "ssh job key", "ssh host key"
SECRET_DOCUMENT = "secrets.yaml"  # the mapping itself, as the OpenPAI runtime mounts it


def container_code(user_exit_code: int) -> int:
    """The container's exit code for a user's exit code, by the rows of the exit spec that have no regex."""
    if user_exit_code == 0 or user_exit_code in SIGNAL_CODES:
        return user_exit_code
    return UNRECOGNISED


def converted_role(name: str) -> str:
    """The name that a role has in Kubernetes objects: lower case, letters and digits only."""
    return "".join(c for c in name.lower() if c.isascii() and c.isalnum())


def storage_variable(name: str) -> str:
    """The variable with the path of a storage: KEDGE_STORAGE_NFS_1 for `nfs-1`."""
    return "KEDGE_STORAGE_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in name).upper()


def duration_text(seconds: float) -> str:
    """A duration for messages: `2 h`, `1 h 30 min`, `90.5 s` as `1 min 30.5 s`."""
    days, rest = divmod(round(seconds, 3), 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number:g} {unit}" for number, unit in parts if round(number, 3)) or "0 s"


def timestamp(ns: int) -> str:
    """Format nanoseconds since 1970 as events do, in UTC: 2026-02-01T02:54:48.123456789Z."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


def _step_to_json(step: Step) -> dict[str, Any]:
    callbacks = [_callback_to_json(callback) for callback in step.callbacks]
    return step._asdict() | {
        "callbacks": callbacks, "retry": step.retry._asdict(), "environment": dict(step.environment)
    }  # fmt: skip


def _step_from_json(data: Mapping[str, Any]) -> Step:
    callbacks = tuple(_callback_from_json(callback) for callback in data["callbacks"])
    return Step(**data)._replace(callbacks=callbacks, retry=Retry(**data.get("retry", {})))


def _callback_to_json(callback: Callback) -> dict[str, Any]:
    data: dict[str, Any] = {"event": callback.event, "script": text_to_json(callback.script)}
    if callback.action:
        data["action"] = callback.action._asdict()
    if callback.service:
        data["service"] = callback.service
    return data


def _callback_from_json(data: Mapping[str, Any]) -> Callback:
    action = data.get("action")
    script = text_from_json(data["script"])
    return Callback(data["event"], script, Action(**action) if action else None, data.get("service"))
