"""Which tasks of a framework are ready. The framework is what an API server sent: values of other types than expected
count as missing."""

from __future__ import annotations

from kedge.dropin.cluster import role_statuses
from kedge.light.types import Any, Iterator, Mapping, NamedTuple


class OwnTask(NamedTuple):
    """The task of this pod. A framework that records another pod for it is not up to date."""

    role: str
    number: int
    pod_uid: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> OwnTask | None:
        """From FrameworkController's variables; None if they are not all there."""
        role, index, uid = (environment.get(f"FC_{name}", "") for name in ("TASKROLE_NAME", "TASK_INDEX", "POD_UID"))
        return cls(role, int(index), uid) if role and uid and index.isascii() and index.isdigit() else None


class Readiness(NamedTuple):
    """How many tasks have an address, of how many. `recorded_pod`: what the framework records for this pod's task, if
    that is another pod or, as an empty text, none yet."""

    ready: int
    total: int
    recorded_pod: str | None = None


def decompressed(framework: dict[str, Any]) -> dict[str, Any]:
    """The framework with the statuses of its roles in plain form. DamagedStatuses."""
    attempt = mapping(mapping(framework.get("status")).get("attemptStatus"))
    if attempt.get(role_statuses.PLAIN) or not attempt.get(role_statuses.PACKED):
        return framework
    plain = {key: value for key, value in attempt.items() if key != role_statuses.PACKED}
    plain[role_statuses.PLAIN] = role_statuses.of_attempt(attempt)
    return {**framework, "status": {**framework["status"], "attemptStatus": plain}}


def readiness(framework: Mapping[str, Any], own: OwnTask | None) -> Readiness:
    """Count the tasks that have an address, among the first of each role as many as the role shall have."""
    ready, total, recorded = 0, 0, None
    statuses = dict(_role_statuses(framework))
    for role, number in _wanted(framework):
        total += number
        for task in statuses.get(role, [])[:number]:
            uid = text(mapping(task.get("attemptStatus")).get("podUID"))
            if own and (role, task.get("index")) == own[:2] and uid != own.pod_uid:
                recorded = uid
            elif pod_ip(task) and not task.get("deletionPending"):
                ready += 1
    return Readiness(ready, total, recorded)


def addresses(framework: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Each role's name with the addresses of its tasks that count, in the order of the framework."""
    statuses = dict(_role_statuses(framework))
    for role, number in _wanted(framework):
        tasks = (task for task in statuses.get(role, [])[:number] if not task.get("deletionPending"))
        yield role, [ip for task in tasks if (ip := pod_ip(task))]


def pod_ip(task: Mapping[str, Any]) -> str:
    """The address of a task's pod, empty if it is not recorded."""
    return text(mapping(task.get("attemptStatus")).get("podIP"))


def _wanted(framework: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Each role's name and how many tasks it shall have."""
    for role in _mappings(mapping(framework.get("spec")).get("taskRoles")):
        number = role.get("taskNumber")
        yield text(role.get("name")), number if type(number) is int and number > 0 else 0


def _role_statuses(framework: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    attempt = mapping(mapping(framework.get("status")).get("attemptStatus"))
    for role in _mappings(attempt.get("taskRoleStatuses")):
        yield text(role.get("name")), _mappings(role.get("taskStatuses"))


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
