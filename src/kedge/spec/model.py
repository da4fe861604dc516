"""A job file's contents, checked and with defaults applied, before any name is resolved.

`spec.parse` makes these values; all are frozen. Strings still contain their `<% … %>` references. Free-form values
(parameters, secrets, plugin parameters) are plain Python values; `JobFileSource.marks` has the exact source text of
each scalar in them, because `1.0` must be rendered as `1.0`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kedge.errors import WARNING, Problem
from kedge.quick_dataclasses import dataclass
from kedge.spec.hidden_lines import Hidden, is_name, line_at
from kedge.spec.message_text import excerpt, show_path
from kedge.spec.suggest import suggested

EVERY_TASK_SUCCEEDS = "everyTaskSucceeds"  # a value of extras.kedge.completion
PRIVATE_CODE, SHARED_CODE = "private", "readOnly"  # values of extras.kedge.code

Path = tuple[str | int, ...]  # the keys and indexes that lead to a value: ("taskRoles", "worker", "commands", 0)


@dataclass(frozen=True, slots=True)
class Mark:
    """The line and column of a value, counted from 1, and its source text if it is a scalar.

    `offset` and `end` give the same place in characters of `JobFileSource.text`, counted from 0.
    """

    line: int
    column: int
    scalar: str | None = None
    offset: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class JobFileSource:
    """The file behind a Job, for messages: its name, its text, the marks of all values (and, in `key_marks`, of all
    mapping keys) by path, and the secrets that messages must not show."""

    file: str
    text: str = field(repr=False)
    marks: Mapping[Path, Mark] = field(repr=False)
    key_marks: Mapping[Path, Mark] = field(repr=False)
    hidden: Hidden = field(default=Hidden(), repr=False)

    def problem(self, path: Path, message: str, *, key: bool = False, mark: Mark | None = None) -> Problem:
        """A Problem at the value at `path`; at its key if `key`; at `mark` if that is given.

        A path that is not in the file gets the place of its nearest ancestor. Secrets are masked.
        """
        mark = mark or (self.key_marks.get(path) if key else None) or self.mark(path)
        secret = None
        if self.hidden.overlap(mark.offset, mark.end):
            secret = mark.scalar if not key else None if is_name(path) else str(path[-1])
        where, message = self.hidden.text(show_path(path), secret if key else None), self.hidden.text(message, secret)
        line = excerpt(self.text, mark.offset)
        found = Problem(self.file, mark.line, mark.column, where, message, line, suggestion=suggested(message))
        return self.hidden.cleaned(found, line_at(self.text, mark.offset))

    def warning(
        self, path: Path, message: str, *, suggestion: str | None = None, key: bool = False, mark: Mark | None = None
    ) -> Problem:
        """A warning in place of an error: the text is allowed but probably not intended."""
        found = self.problem(path, message, key=key, mark=mark)
        suggestion = self.hidden.text(suggestion) if suggestion else found.suggestion
        return found._replace(severity=WARNING, suggestion=suggestion)

    def mark(self, path: Path) -> Mark:
        """The mark of the value at `path`, or of its nearest ancestor in the file."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path) or Mark(1, 1)


@dataclass(frozen=True, slots=True)
class Auth:
    """Registry credentials of an image; values may contain references to secrets."""

    username: str | None = None
    password: str | None = None
    registryuri: str | None = None


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """One item of `prerequisites`, or of `extras.reference_prerequisites` (whose `type` may be empty). `data` is the
    whole mapping as written; `path` leads to it."""

    name: str
    type: str
    data: Mapping[str, Any]
    path: Path
    uri: str | tuple[str, ...] | None = None
    auth: Auth | None = None
    plugin: str | None = None
    require: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """How many failed (succeeded) tasks end the job; -1 switches the rule off."""

    min_failed: int = 1
    min_succeeded: int = 1


NEVER = Completion(-1, -1)  # no number of failed or succeeded tasks ends the job


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one task: CPU cores (an int if there is no fraction), memory in MiB, and the number of ports by
    label, always including ssh and http."""

    cpu: float
    memory_mb: int
    gpu: int
    ports: Mapping[str, int]

    @property
    def whole_cpus(self) -> int:
        """The cores, rounded up, for whatever counts only whole ones."""
        return math.ceil(self.cpu)


@dataclass(frozen=True, slots=True)
class TaskRole:
    """One role. `shm_mb` is in MiB; None means the default of 512."""

    name: str
    instances: int
    completion: Completion
    task_retry_count: int
    prerequisites: tuple[str, ...]
    docker_image: str
    data: str | None
    output: str | None
    script: str | None
    shm_mb: int | None
    infiniband: bool
    resources: Resources
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeploymentRole:
    """The shell lines that a deployment adds before and after the commands of one role."""

    pre_commands: tuple[str, ...] = ()
    post_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimePlugin:
    """One entry of `extras.com.microsoft.pai.runtimeplugin`. `task_roles` None means every role. `retry` holds `max`
    and `delaySec`; `timeout_sec` limits each try."""

    plugin: str
    parameters: Mapping[str, Any]
    failure_policy: str
    task_roles: tuple[str, ...] | None
    path: Path
    retry: Mapping[str, Any] = field(default_factory=dict)
    timeout_sec: float | None = None


@dataclass(frozen=True, slots=True)
class StopSettings:
    """How tasks are stopped: the signal without SIG, which processes get it (`group` or `command`), and the seconds
    until SIGKILL."""

    signal: str = "TERM"
    target: str = "group"
    grace_sec: float = 30.0


@dataclass(frozen=True, slots=True)
class KedgeRole:
    """`extras.kedge.taskRoles.ROLE`: kedge's own settings of one role. `env` has scalars as in the file; what the role
    does not set in `stop` is the job's. Times in seconds; None is no limit of its own."""

    env: Mapping[str, Any] = field(default_factory=dict)
    stop: StopSettings = StopSettings()
    time_limit_sec: float | None = None
    attempt_time_limit_sec: float | None = None
    warn_before_sec: float | None = None


@dataclass(frozen=True, slots=True)
class KedgeExtras:
    """`extras.kedge`: kedge's own job settings. Times in seconds; `env` has scalars as in the file."""

    stop: StopSettings = StopSettings()
    mask: bool = True
    max_transient: int = 10
    backoff_sec: float = 1.0
    keep_unknown_references: bool = False
    workdir: str | None = None
    rules: tuple[str, ...] = ()
    marketplace: str | None = None
    every_task_succeeds: bool = False
    capabilities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by role
    env: Mapping[str, Any] = field(default_factory=dict)
    task_roles: Mapping[str, KedgeRole] = field(default_factory=dict)
    time_limit_sec: float | None = None
    attempt_time_limit_sec: float | None = None
    warn_before_sec: float | None = None
    shares_code: bool = False  # `code: readOnly`

    def role(self, name: str) -> KedgeRole:
        """The settings of a role; the defaults if the file has none for it."""
        return self.task_roles.get(name) or KedgeRole(stop=self.stop)


@dataclass(frozen=True, slots=True)
class Job:
    """A whole job file."""

    name: str
    version: str
    contributor: str | None
    description: str | None
    prerequisites: tuple[Prerequisite, ...]
    parameters: Mapping[str, Any]
    secrets: Mapping[str, Any] = field(repr=False)
    job_retry_count: int
    task_roles: Mapping[str, TaskRole]
    deployments: Mapping[str, Mapping[str, DeploymentRole]]
    active_deployment: str | None
    virtual_cluster: str
    gang_allocation: bool
    runtime_plugins: tuple[RuntimePlugin, ...]
    extras: Mapping[str, Any]
    kedge: KedgeExtras
    source: JobFileSource = field(repr=False)
    references: tuple[Prerequisite, ...] = ()  # extras.reference_prerequisites
    warnings: tuple[Problem, ...] = ()
    inert: tuple[str, ...] = ()  # keys without effect, reported in one warning: ("ssh", "hivedScheduler")
