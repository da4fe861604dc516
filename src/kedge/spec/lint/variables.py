"""PAI_ and KEDGE_ variables in shell lines that no task will have, for example of roles that the job does not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from kedge.errors import Problem
from kedge.spec.lint import texts
from kedge.spec.message_text import quote
from kedge.spec.model import JobFileSource
from kedge.spec.references import locate
from kedge.spec.suggest import distance, nearest
from kedge.spec.tolerant import mapping

# A variable that is read, not set, with its whole name: $X, ${X}, ${!X}, "X" in a program of another language.
_READ = r"(?:\$\{?[!#]?|[\"'])((?:PAI|KEDGE)_\w+)(?![\w$<*]|\{|%\()"
_ALWAYS = frozenset({
    "PAI_FRAMEWORK_NAME", "PAI_JOB_NAME", "PAI_USER_NAME", "PAI_USERNAME", "PAI_DEFAULT_FS_URI", "PAI_VIRTUAL_CLUSTER",
    "PAI_TASK_ROLE_COUNT", "PAI_TASK_ROLES_NUM", "PAI_JOB_TASK_ROLE_COUNT", "PAI_TASK_ROLE_LIST",
    "PAI_JOB_TASK_ROLE_LIST", "PAI_TASKS_NUM", "PAI_JOB_TASK_COUNT", "PAI_CURRENT_TASK_ROLE_NAME",
    "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "PAI_TASK_INDEX", "PAI_TASK_ROLE_INSTANCES", "PAI_CURRENT_CONTAINER_IP",
    "PAI_CONTAINER_HOST_IP", "PAI_CURRENT_CONTAINER_PORT", "PAI_CONTAINER_HOST_PORT", "PAI_CONTAINER_SSH_PORT",
    "PAI_CONTAINER_HOST_PORT_LIST", "PAI_WORK_DIR", "PAI_LOG_DIR",
    "KEDGE_OUTPUT_DIR", "KEDGE_JOB_DIR", "KEDGE_JOB_ID", "KEDGE_PEERS_FILE",
    "KEDGE_COMMAND_PID", "KEDGE_PROGRAM_PIDS",
})  # fmt: skip
# Not compiled here: that takes longer than the check, and few jobs need these. `re` compiles at first use.
_ROLE = (
    r"(PAI_TASK_ROLE_)(?!TASK_COUNT_)(\w+)(_HOST_LIST)"
    r"|(PAI_TASK_ROLE_TASK_COUNT_|PAI_RESOURCE_|PAI_MIN_FAILED_TASK_COUNT_|PAI_MIN_SUCCEEDED_TASK_COUNT_)(\w+)()"
)
_IP = r"PAI_HOST_IP_(\w+?)_(\d+)"
_PORTS = r"PAI_PORT_LIST_(\w+?)_(\d+)_([A-Za-z_]\w*)"
_OLD_PORTS = r"PAI_(\w+?)_(\d+)_([A-Za-z_]\w*)_PORT"
_OWN_PORTS = r"PAI_CONTAINER_HOST_(\w+)_PORT_LIST"


def variables(job: Mapping[str, Any], source: JobFileSource) -> Iterator[Problem]:
    """A warning for each place that reads a variable no task will have."""
    known = _Known(job)
    for path, text in _shell_lines(job):
        for found in re.finditer(_READ, text) if "PAI_" in text or "KEDGE_" in text else ():
            name = found[1]
            if name.endswith("_") or f"{name}=" in text or not (wrong := known.wrong(name)):
                continue
            why, meant = wrong
            hint = f"; did you mean {quote(meant)}?" if meant else ""
            mark = locate(source, path, name, text.count(name, 0, found.start(1)))
            message = f"no task has the variable {quote(name)}: {why}{hint}"
            yield source.warning(path, message, suggestion=meant, mark=mark)


def _shell_lines(job: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    yield from texts.commands(job)
    for path, lines in texts.hooks(job):
        yield from (((*path, index), line) for index, line in enumerate(lines) if isinstance(line, str))


class _Known:
    """The variables that a job's tasks can have."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._roles = {name: mapping(role) for name, role in mapping(job.get("taskRoles")).items()}

    @cached_property
    def _by_name(self) -> dict[str, Mapping[str, Any]]:
        """Roles by name, and by the name that they get in Kubernetes."""
        short = {name.replace("_", "").lower(): role for name, role in self._roles.items()}
        return short | self._roles

    def wrong(self, name: str) -> tuple[str, str | None] | None:
        """Why no task has this variable, and a guess at the intended name or None; None if a task may have it."""
        if name in _ALWAYS:
            return None
        if match := re.fullmatch(_ROLE, name):
            before, role, after = (match[1], match[2], match[3]) if match[1] else (match[4], match[5], match[6])
            return self._no_role(role, lambda meant: f"{before}{meant}{after}")
        if match := re.fullmatch(_IP, name):
            role, index = match.groups()
            return self._no_task(role, index, lambda meant, task: f"PAI_HOST_IP_{meant}_{task}")
        if match := re.fullmatch(_PORTS, name):
            return self._no_port(match, lambda role, task, label: f"PAI_PORT_LIST_{role}_{task}_{label}")
        if match := re.fullmatch(_OWN_PORTS, name):
            labels = {label for role in self._roles.values() for label in _labels(role)}
            return None if match[1] in labels else (f"no task role has ports labelled {quote(match[1])}", None)
        if match := re.fullmatch(_OLD_PORTS, name):
            return self._no_port(match, lambda role, task, label: f"PAI_{role}_{task}_{label}_PORT")
        meant = min(_ALWAYS, key=lambda other: (distance(name, other), other))
        return ("kedge sets no such variable", meant) if distance(name, meant) <= 2 else None

    def _no_role(self, role: str, written: Callable[[str], str]) -> tuple[str, str | None] | None:
        if role in self._by_name:
            return None
        meant = nearest(role, self._roles) or (next(iter(self._roles)) if len(self._roles) == 1 else None)
        return f"no task role is named {quote(role)}", written(meant) if meant else None

    def _no_task(self, role: str, index: str, written: Callable[[str, str], str]) -> tuple[str, str | None] | None:
        if wrong := self._no_role(role, lambda meant: written(meant, index)):
            return wrong
        count = self._by_name[role].get("instances", 1)
        if not isinstance(count, int) or int(index) < count:
            return None
        return f"the tasks of {quote(role)} are 0 to {count - 1}", written(role, str(count - 1))

    def _no_port(self, match: re.Match[str], written: Callable[[str, str, str], str]) -> tuple[str, str | None] | None:
        role, index, label = match.groups()
        if wrong := self._no_task(role, index, lambda meant, task: written(meant, task, label)):
            return wrong
        labels = _labels(self._by_name[role])
        if label in labels:
            return None
        meant = nearest(label, labels)
        return f"{quote(role)} has no ports labelled {quote(label)}", written(role, index, meant) if meant else None


def _labels(role: Mapping[str, Any]) -> set[str]:
    return {*mapping(mapping(role.get("resourcePerInstance")).get("ports")), "ssh", "http"}
