"""How a task attempt of a Framework ended: its report, from what FrameworkController keeps of the pod and from the log.

FrameworkController writes `Pod failed: PodPattern matched: {JSON}`; in it are the containers with their messages. That
of the user's container is the termination message of the runtime."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kedge.contract import (
    CANNOT_START,
    COMMAND_FAILED,
    COMMAND_KILLED,
    RUNTIME_ERROR,
    SUCCEEDED,
    USER_ALL,
    Report,
    timestamp,
)
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.exit_spec.termination import END, START
from kedge.diagnose.model import Diagnosis, Evidence
from kedge.engines.controller import failures
from kedge.engines.kubernetes.framework.event_fold import TaskEnding
from kedge.engines.kubernetes.framework.progress import FrameworkTask
from kedge.errors import InputError
from kedge.policy.codes import CODES
from kedge.spec import yaml
from kedge.states import State
from kedge.terminal_text import one_line

_MATCHED = "matched: "
_LONGEST = 300  # characters of a message
_INIT_CODES = range(250, 255)
_STOPPED = {-210: "a stop request", -220: "the end of the job", -230: "the removal of the task"}
# What OpenPAI's codes for ends of pods mean here. The others are of the container or not known.
_CAUSES = {
    -101: "removed_outside", -1000: "evicted", -1001: "node_failure", -1002: "node_refused", -1003: "preempted",
    -1005: "node_refused", -1006: "node_refused", -1200: "host_oom_kill", -1300: "node_failure",
    -1201: "container_failure", -1202: "container_failure", -1203: "container_failure", -1204: "container_failure",
    -1205: "gpu_hw_fault", 250: "container_failure", 251: "scheduler_resource_unavailable", 252: "container_failure",
    253: "port_in_use", 254: "container_failure",
}  # fmt: skip


class RuntimeMessage(NamedTuple):
    """The termination message of the runtime: the exit code of the user's command, and the end of its log."""

    user_code: int | None = None
    user_log: str = ""


def report(end: TaskEnding, log: bytes) -> Report:
    """The report of a task attempt; `log` is the end of what it printed, as far as that is here."""
    task, said = end.task, runtime_message(end.task.text)
    user_code = _user_code(task, said)
    failed = task.attempt_state == State.FAILED
    reason = _reason(task, user_code)
    started, ended = _time(task.started) or _time(task.completed), _time(task.completed)
    made = Report(
        task=f"{end.role}:{task.task_index}",
        job_attempt=end.job_attempt,
        task_attempt=task.attempt,
        exit_code=task.code if task.code is not None else 0,
        user_exit_code=user_code,
        reason=reason,
        message=_message(task, reason, user_code),
        started=started or timestamp(time.time_ns()),
        ended=ended or timestamp(time.time_ns()),
        duration_sec=_seconds(started, ended),
        stopped_by=_STOPPED.get(task.code or 0),
    )
    return made._replace(diagnosis=_diagnosis(made, said, log).to_json()) if failed else made


def runtime_message(diagnostics: str) -> RuntimeMessage:
    """The runtime's message in what FrameworkController keeps; empty if there is none."""
    texts = [str(each.get("message") or "") for each in _containers(diagnostics)]
    for text in (*texts, diagnostics):
        _, found, rest = text.partition(START)
        body, ends, _ = rest.partition(END)
        if found and ends:
            return _parsed(body)
    return RuntimeMessage()


def _parsed(body: str) -> RuntimeMessage:
    try:
        value = yaml.read_any(body, "message").value
    except InputError:
        return RuntimeMessage()
    content = value if isinstance(value, Mapping) else {}
    code, logs = content.get("originUserExitCode"), content.get("errorLogs")
    user = logs.get("user") if isinstance(logs, Mapping) else ""
    return RuntimeMessage(code if type(code) is int else None, user if isinstance(user, str) else "")


def _containers(diagnostics: str) -> list[Mapping[str, Any]]:
    _, found, text = diagnostics.partition(_MATCHED)
    try:
        value = json.JSONDecoder().raw_decode(text.strip())[0] if found else {}
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, Mapping):
        return []
    status = value.get("status")
    fields = status if isinstance(status, Mapping) else value
    lists = (fields.get(key) for key in ("containers", "initContainerStatuses", "containerStatuses"))
    each = [item for items in lists if isinstance(items, list) for item in items if isinstance(item, Mapping)]
    return [{**item, **_terminated(item)} for item in each]


def _terminated(container: Mapping[str, Any]) -> Mapping[str, Any]:
    state = container.get("state")
    found = state.get("terminated") if isinstance(state, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _user_code(task: FrameworkTask, said: RuntimeMessage) -> int | None:
    """The exit code of the user's command, as far as it is known: a code of the container may be of anybody."""
    if task.attempt_state == State.SUCCEEDED:
        return 0
    if said.user_code is not None or task.code is None:
        return said.user_code
    return task.code if task.started and 128 < task.code < 160 else None


def _reason(task: FrameworkTask, user_code: int | None) -> str:
    if task.attempt_state == State.SUCCEEDED:
        return SUCCEEDED
    if task.attempt_state == State.STOPPED:
        return COMMAND_KILLED
    if user_code is None:  # a command that was short may have run although FrameworkController has no time of that
        return CANNOT_START if task.code in _INIT_CODES or not task.started else RUNTIME_ERROR
    return COMMAND_KILLED if user_code > 128 else COMMAND_FAILED


def _message(task: FrameworkTask, reason: str, user_code: int | None) -> str:
    if reason == SUCCEEDED:
        return "the command succeeded"
    if task.attempt_state == State.STOPPED:
        return f"stopped by {_STOPPED.get(task.code or 0, 'somebody')}"
    if reason == COMMAND_FAILED:
        return f"the command failed with exit code {user_code}"
    if reason == COMMAND_KILLED and user_code:
        return f"the command was killed by signal {user_code - 128}"
    phrase = CODES[task.code].phrase if task.code in CODES else ""
    summary = one_line(task.text.partition(_MATCHED)[0] if START in task.text else task.text)[:_LONGEST]
    return f"code {task.code}{f' ({phrase})' if phrase else ''}{f': {summary}' if summary else ''}"


def _diagnosis(made: Report, said: RuntimeMessage, log: bytes) -> Diagnosis:
    """By the code where it is one of the cluster, else from the log."""
    if cause := _CAUSES.get(made.exit_code):
        return failures.of_loss(cause, made.message)
    content = log or said.user_log.encode()
    logs = ((USER_ALL, content),) if content else ()
    return classify(Evidence(logs=logs, exit_code=made.user_exit_code or made.exit_code))


def _time(text: str) -> str:
    """A time of Kubernetes in the format of events; empty if it is none."""
    try:
        return timestamp(int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1e9)) if text else ""
    except ValueError:
        return ""


def _seconds(started: str, ended: str) -> float:
    if not (started and ended):
        return 0.0
    return max(0.0, (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds())
