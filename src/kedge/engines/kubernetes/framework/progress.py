"""What the status of a Framework means: the states of the job and its tasks, and how they ended. A Framework comes from
an API server: values of other types than expected count as missing."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kedge.contract import STOPPED_BY_COMPLETION, STOPPED_BY_USER
from kedge.errors import CannotRun
from kedge.states import State

_STOPS = frozenset({STOPPED_BY_USER, STOPPED_BY_COMPLETION})
_WAITING = frozenset({"AttemptCreationPending", "AttemptCreationRequested", "AttemptPreparing"})
_ENDING = frozenset({"AttemptDeletionPending", "AttemptDeletionRequested", "AttemptDeleting", "AttemptCompleted"})
_COMPLETED = "Completed"
_LARGEST = 256 << 20  # bytes of unpacked statuses: about 1000 times what 10,000 tasks need


class FrameworkTask(NamedTuple):
    """One task: its role by its name in Kubernetes, its state and that of its latest attempt. `code` is None before its
    end; `text` is what was left of why it ended. `pod`, `pod_uid`, `node` and `address` are empty before they are
    known. `retrying`: this attempt has ended, and another one follows."""

    role: str
    task_index: int
    state: State
    attempt_state: State
    attempt: int
    code: int | None = None
    text: str = ""
    pod: str = ""
    pod_uid: str = ""
    node: str = ""
    address: str = ""
    started: str = ""
    completed: str = ""
    retrying: bool = False


class FrameworkProgress(NamedTuple):
    """The job. `attempt` counts its retries; `text` says why it ended. `seen`: FrameworkController knows of it."""

    state: State
    attempt: int
    code: int | None
    text: str
    tasks: tuple[FrameworkTask, ...]
    seen: bool = False

    @property
    def is_over(self) -> bool:
        """Whether FrameworkController will do nothing more."""
        return self.state in (State.SUCCEEDED, State.FAILED, State.STOPPED)


def read(framework: Mapping[str, Any]) -> FrameworkProgress:
    """The progress of a Framework. CannotRun: its compressed statuses cannot be read."""
    status = _mapping(framework.get("status"))
    attempt = _mapping(status.get("attemptStatus"))
    completion = _mapping(attempt.get("completionStatus"))
    code = _number(completion.get("code"))
    return FrameworkProgress(
        state=_state(status.get("state"), code),
        attempt=_number(attempt.get("id")) or 0,
        code=code,
        text=_text_of(completion),
        tasks=tuple(_tasks(attempt)),
        seen=bool(status.get("state")),
    )


def _tasks(attempt: Mapping[str, Any]) -> Iterator[FrameworkTask]:
    for role in _mappings(_role_statuses(attempt)):
        for position, task in enumerate(_mappings(role.get("taskStatuses"))):
            yield _task(_text(role.get("name")), position, task)


def _task(role: str, position: int, task: Mapping[str, Any]) -> FrameworkTask:
    attempt = _mapping(task.get("attemptStatus"))
    completion = _mapping(attempt.get("completionStatus"))
    code, index = _number(completion.get("code")), _number(task.get("index"))
    return FrameworkTask(
        role=role,
        task_index=position if index is None else index,
        state=_state(task.get("state"), code),
        attempt_state=_state(task.get("state"), code, of_attempt=True),
        attempt=_number(attempt.get("id")) or 0,
        code=code,
        text=_text_of(completion),
        pod=_text(attempt.get("podName")),
        pod_uid=_text(attempt.get("podUID")),
        node=_text(attempt.get("podNodeName")) or _text(attempt.get("podHostIP")),
        address=_text(attempt.get("podIP")) or _text(attempt.get("podHostIP")),
        started=_text(attempt.get("runTime")),
        completed=_text(attempt.get("completionTime")),
        retrying=_number(_mapping(task.get("retryPolicyStatus")).get("retryDelaySec")) is not None,
    )


def _state(state: Any, code: int | None, *, of_attempt: bool = False) -> State:
    """From a state of FrameworkController to kedge's. An attempt that has ended and will be retried runs on for its
    task, and has an end of its own. A state that is not known counts as waiting: nothing follows from that."""
    if state == _COMPLETED or (of_attempt and state == "AttemptCompleted"):
        return _end(code)
    if state in _ENDING:
        return State.STOPPING if code in _STOPS else State.RUNNING
    return State.RUNNING if state == "AttemptRunning" else State.WAITING


def _end(code: int | None) -> State:
    if code in _STOPS:
        return State.STOPPED
    return State.SUCCEEDED if code == 0 else State.FAILED


def _text_of(completion: Mapping[str, Any]) -> str:
    phrase, diagnostics = _text(completion.get("phrase")), _text(completion.get("diagnostics"))
    return diagnostics or phrase


def _role_statuses(attempt: Mapping[str, Any]) -> Any:
    """Those of large jobs are compressed."""
    if plain := attempt.get("taskRoleStatuses"):
        return plain
    packed = attempt.get("taskRoleStatusesCompressed")
    if not packed:
        return []
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(packed, validate=True))) as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError(f"more than {_LARGEST >> 20} MiB")
        return json.loads(data)
    except (ValueError, TypeError, EOFError, OSError, RecursionError, binascii.Error) as error:
        raise CannotRun(f"the compressed statuses of the Framework cannot be read: {error}") from None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
