"""Reads a framework: the JSON object of FrameworkController that describes a job and where its tasks run."""

from __future__ import annotations

from kedge import user_files
from kedge.dropin.cluster import role_statuses
from kedge.dropin.cluster.role_statuses import DamagedStatuses
from kedge.dropin.ports.port_numbers import PortSchedule, port_schedule
from kedge.light import json
from kedge.light.types import Any, Mapping, NamedTuple

CONFIG = "config"  # the annotation with the text of the job
_LARGEST = 512 << 20  # bytes; twice what compressed statuses may become
_PORTS = "rest-server/port-scheduling-spec"


class InvalidFramework(ValueError):
    """The file is not a framework; the message continues its path."""


class TaskPod(NamedTuple):
    """Where one task runs: the pod's UID and the address of its host, as far as they are known. OpenPAI's pods use the
    network of their hosts; of pods that say they do not, the address is their own."""

    pod_uid: str | None
    host: str | None


class FrameworkRole(NamedTuple):
    """A task role under its name in Kubernetes. `tasks` has the known tasks by their index."""

    name: str
    number: int
    ports: PortSchedule
    tasks: Mapping[int, TaskPod]


class Framework(NamedTuple):
    """A framework, as far as the init phase needs it."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    roles: tuple[FrameworkRole, ...]


def read(path: str) -> Framework:
    """The framework in a file. OSError; InvalidFramework if it is not one."""
    data = user_files.read(path, _LARGEST)
    try:
        return _framework(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, InvalidFramework) else InvalidFramework(f"is not JSON: {error}") from None


def _framework(value: Any) -> Framework:
    spec = _mapping(_mapping(value).get("spec"))
    roles = spec.get("taskRoles")
    if not isinstance(roles, list) or not roles:
        raise InvalidFramework("is not a framework: it has no list spec.taskRoles")
    metadata = _mapping(_mapping(value).get("metadata"))
    statuses = {_text(each.get("name")): each for each in _mappings(_statuses(_mapping(value)))}
    return Framework(
        name=_text(metadata.get("name")),
        annotations=_texts(metadata.get("annotations")),
        labels=_texts(metadata.get("labels")),
        roles=tuple(_role(_mapping(role), statuses) for role in roles),
    )


def _statuses(framework: Mapping[str, Any]) -> Any:
    try:
        return role_statuses.of_attempt(_mapping(_mapping(framework.get("status")).get("attemptStatus")))
    except DamagedStatuses as error:
        raise InvalidFramework(f"has statuses that cannot be read: {error}") from None


def _role(role: Mapping[str, Any], statuses: Mapping[str, Mapping[str, Any]]) -> FrameworkRole:
    name, number = _text(role.get("name")), role.get("taskNumber", 1)
    if not name or type(number) is not int or number < 0:
        raise InvalidFramework("is not a framework: a task role has no name or no taskNumber")
    pod = _mapping(_mapping(role.get("task")).get("pod"))
    template = _mapping(_mapping(pod.get("metadata")).get("annotations"))
    own_network = _mapping(pod.get("spec")).get("hostNetwork") is False
    tasks = {}
    for position, task in enumerate(_mappings(statuses.get(name, {}).get("taskStatuses"))):
        index = task.get("index", position)
        if type(index) is int and 0 <= index < number:
            tasks[index] = _task(_mapping(task.get("attemptStatus")), own_network)
    return FrameworkRole(name, number, _schedule(name, template.get(_PORTS)), tasks)


def _task(status: Mapping[str, Any], own_network: bool) -> TaskPod:
    host = (own_network and _text(status.get("podIP"))) or _text(status.get("podHostIP"))
    return TaskPod(_text(status.get("podUID")) or None, host or None)


def _schedule(role: str, text: Any) -> PortSchedule:
    try:
        return port_schedule(json.loads(text) if isinstance(text, str) and text.strip() else None)
    except ValueError as error:
        raise InvalidFramework(f"has a wrong annotation {_PORTS} of the task role {role}: {error}") from None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> Mapping[str, str]:
    return {key: text for key, text in _mapping(value).items() if isinstance(text, str)}
