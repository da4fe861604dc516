"""The plan: what will run. Its size depends on the number of roles, not of tasks; `plan.task` makes one task's spec."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from kedge.contract import (
    SSH_SERVER,
    Action,
    Callback,
    Step,
    StopPolicy,
    TaskTimeLimit,
    Text,
    show_text,
    text_from_json,
)
from kedge.masking import MASKED
from kedge.quick_dataclasses import dataclass
from kedge.resolve.model import NOTHING_REQUIRED, Mount, RequirementEntry, Requirements
from kedge.spec.model import EVERY_TASK_SUCCEEDS, PRIVATE_CODE, SHARED_CODE, Completion, Resources


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`job` counted retries of the whole job, and up to `max_transient` retries of transient failures, with a delay
    that starts at `backoff_sec` seconds and doubles up to 60."""

    job: int = 0
    max_transient: int = 10
    backoff_sec: float = 1.0


@dataclass(frozen=True, slots=True)
class RolePlan:
    """One role: `instances` tasks that differ only in their index. Memory and shm are in MiB.

    `pin` is the image's entry in the lock file: the digest `sha256:…`, or `id:sha256:…` for an image that no registry
    has. `environment` is added to the plan's (`plan.task` adds the task's index); `env` are the variables that the user
    sets. `stop` is how its tasks are stopped; `time_limit` is for a task with its retries, and the hooks before a stop
    run `warn_before_sec` before a limit passes. `code` names the snapshot used as the working directory; None is an
    empty
    folder per task. `outputs` are folders that are made in the output folder. `capabilities` are Linux capabilities
    that its containers have besides the usual ones. `lines` has the job file's line number for each line of the
    command.
    """

    name: str
    instances: int
    image: str
    auth: Mapping[str, Text] | None
    resources: Resources
    shm_mb: int | None
    infiniband: bool
    completion: Completion
    task_retry_count: int
    environment: Mapping[str, str]
    command: Text
    steps: tuple[Step, ...]
    code: str | None
    pin: str | None = None
    capabilities: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    env: Mapping[str, Text] = field(default_factory=dict)
    stop: StopPolicy = StopPolicy()
    time_limit: TaskTimeLimit | None = None
    attempt_time_limit: TaskTimeLimit | None = None
    warn_before_sec: float | None = None
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole job. Every task gets `environment`. `code` maps snapshot names to the absolute paths that are copied
    once per job; `rules` are files with additional rules for causes of failures; `notes` are for the submitter;
    `mounts` are the storages of all tasks; `requirements` are the prerequisites behind the steps.
    `time_limit` is for the whole run with its retries. `every_task_succeeds`: all tasks run to completion and must
    succeed, whatever the roles' completion is.
    `hold_sec`: how long the first task that fails is held.
    `shares_code`: tasks start in a read-only copy of the code that all share, instead of one each."""

    user: str
    job: str
    virtual_cluster: str
    gang: bool
    retry: RetryPolicy
    stop: StopPolicy
    mask: bool
    environment: Mapping[str, str]
    roles: tuple[RolePlan, ...]
    code: Mapping[str, str]
    rules: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    requirements: Requirements = NOTHING_REQUIRED
    every_task_succeeds: bool = False
    shares_code: bool = False
    time_limit: TaskTimeLimit | None = None
    hold_sec: float | None = None

    def role(self, name: str) -> RolePlan:
        """The role with this name. KeyError: there is none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)

    def tasks(self) -> Iterator[tuple[str, int]]:
        """Every (role, index), in the order of the file."""
        return ((role.name, index) for role in self.roles for index in range(role.instances))

    @property
    def task_count(self) -> int:
        return sum(role.instances for role in self.roles)

    @property
    def port_count(self) -> int:
        """The total number of ports that all tasks reserve."""
        return sum(role.instances * sum(role.resources.ports.values()) for role in self.roles)

    @property
    def mount_paths(self) -> dict[str, str]:
        """The first mount path of each storage, by name."""
        return {mount.name: mount.path for mount in reversed(self.mounts)}

    @property
    def gpu_count(self) -> int:
        return sum(role.instances * role.resources.gpu for role in self.roles)

    @property
    def has_ssh(self) -> bool:
        """Whether kedge serves ssh in some of the tasks."""
        steps = (step for role in self.roles for step in role.steps)
        return any(c.action is not None and c.action.kind == SSH_SERVER for step in steps for c in step.callbacks)

    def to_json(self, shown: Callable[[Text], Any] = show_text) -> dict[str, Any]:
        """The plan as JSON. `shown` formats texts; by default, secrets appear as the tags that the user wrote."""
        return {
            "version": 1,
            "user": self.user,
            "job": self.job,
            "virtualCluster": self.virtual_cluster,
            "gang": self.gang,
            "completion": EVERY_TASK_SUCCEEDS if self.every_task_succeeds else None,
            "retry": {
                "job": self.retry.job,
                "maxTransient": self.retry.max_transient,
                "backoffSec": self.retry.backoff_sec,
            },
            "stop": _stop_json(self.stop),
            "timeLimit": _limit_json(self.time_limit),
            "holdOnFailureSec": self.hold_sec,
            "mask": self.mask,
            "environment": dict(self.environment),
            "tasks": self.task_count,
            "code": dict(self.code),
            "codeMode": SHARED_CODE if self.shares_code else PRIVATE_CODE,
            "rules": list(self.rules),
            "notes": list(self.notes),
            "storages": [_mount_json(mount) for mount in self.mounts],
            "prerequisites": [_entry_json(number, entry) for number, entry in enumerate(self.requirements.entries)],
            "roles": [_role_json(role, self.requirements.roles.get(role.name, ()), shown) for role in self.roles],
        }


def _entry_json(number: int, entry: RequirementEntry) -> dict[str, Any]:
    """A prerequisite; `needs` and the roles' `prerequisites` refer to it by `id`."""
    return {"id": number, **entry._asdict(), "values": dict(entry.values), "needs": list(entry.needs)}


def _role_json(role: RolePlan, listed: tuple[int, ...], shown: Callable[[Text], Any]) -> dict[str, Any]:
    return {
        "name": role.name,
        "instances": role.instances,
        "image": role.image,
        "imagePin": role.pin,
        "auth": {key: _credential(key, text) for key, text in role.auth.items()} if role.auth else None,
        "resources": {
            "cpu": role.resources.cpu,
            "memoryMB": role.resources.memory_mb,
            "gpu": role.resources.gpu,
            "ports": dict(role.resources.ports),
            "shmMB": role.shm_mb,
            "infiniband": role.infiniband,
        },
        "completion": {
            "minFailedInstances": role.completion.min_failed,
            "minSucceededInstances": role.completion.min_succeeded,
        },
        "taskRetryCount": role.task_retry_count,
        "prerequisites": list(listed),
        "environment": dict(role.environment),
        "env": {name: shown(text) for name, text in role.env.items()},
        "command": shown(role.command),
        "steps": [_step_json(step, shown) for step in role.steps],
        "code": role.code,
        "outputs": list(role.outputs),
        "capabilities": list(role.capabilities),
        "stop": _stop_json(role.stop),
        "timeLimit": _limit_json(role.time_limit),
        "attemptTimeLimit": _limit_json(role.attempt_time_limit),
        "warnBeforeSec": role.warn_before_sec,
    }


def _mount_json(mount: Mount) -> dict[str, Any]:
    return {
        "name": mount.name,
        "mountPath": mount.path,
        "readOnly": mount.read_only,
        "folder": mount.folder,
        "remote": mount.remote._asdict() if mount.remote else None,
        "claim": mount.claim._asdict() if mount.claim else None,
    }


def _limit_json(limit: TaskTimeLimit | None) -> dict[str, Any] | None:
    return {"key": limit.key, "sec": limit.limit_sec} if limit else None


def _stop_json(stop: StopPolicy) -> dict[str, Any]:
    return {"signal": stop.signal, "target": stop.target, "graceSec": stop.grace_sec}


def _credential(key: str, text: Text) -> str:
    """A value of `auth` that can be shown; a literal password is masked."""
    literal = key == "password" and any(isinstance(part, str) and part.strip() for part in text)
    return MASKED if literal else show_text(text)


def _step_json(step: Step, shown: Callable[[Text], Any]) -> dict[str, Any]:
    return {
        "name": step.name,
        "failurePolicy": step.policy,
        "retry": {"max": step.retry.max, "delaySec": step.retry.delay_sec},
        "timeoutSec": step.timeout_sec,
        "environment": dict(step.environment),
        "callbacks": [_callback_json(callback, shown) for callback in step.callbacks],
    }


def _callback_json(callback: Callback, shown: Callable[[Text], Any]) -> dict[str, Any]:
    service = {"service": callback.service} if callback.service else {}
    if callback.action is None:
        return {"event": callback.event, "script": shown(callback.script), **service}
    action = callback.action
    shown_action = {"kind": action.kind, "parameters": _parameters(action, shown)}
    return {"event": callback.event, "action": shown_action, **service}


def action_text(action: Action | None) -> Text:
    """An action of the runtime as text: its kind and parameters. Secrets appear as their tags."""
    if action is None:
        return ()
    values = _parameters(action, show_text).items()
    return (" ".join([action.kind, *(f"{key}={json.dumps(value)}" for key, value in values)]),)


def _parameters(action: Action, shown: Callable[[Text], Any]) -> dict[str, Any]:
    return {key: _value(value, shown) for key, value in action.parameters.items()}


def _value(value: Any, shown: Callable[[Text], Any]) -> Any:
    return shown(text_from_json(value["text"])) if isinstance(value, dict) and "text" in value else value
