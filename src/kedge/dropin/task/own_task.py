"""Which task of a framework this container belongs to, and the names and addresses of all tasks."""

from __future__ import annotations

from kedge.contract import converted_role
from kedge.dropin.ports.port_numbers import ports
from kedge.dropin.task.framework import Framework, FrameworkRole, InvalidFramework, TaskPod
from kedge.light.types import Mapping, NamedTuple, Sequence
from kedge.peers import Peer, Peers

ROLE_VARIABLE = "FC_TASKROLE_NAME"
INDEX_VARIABLE = "FC_TASK_INDEX"
_ROLE_IN_JOB = "PAI_CURRENT_TASK_ROLE_NAME"
_ROLES_IN_JOB = ("PAI_TASK_ROLE_LIST", "PAI_JOB_TASK_ROLE_LIST")
_OWN_UID = ("FC_POD_UID", "POD_UID")
_OWN_HOST = ("HOST_IP", "POD_HOST_IP", "POD_IP")  # usual names for the downward API; OpenPAI's pods use host networks
_UNKNOWN = TaskPod(None, None)


class ThisTask(NamedTuple):
    """This task: its role as the job file names it, and its index (`number`)."""

    role: str
    number: int


class NoOwnTask(ValueError):
    """The variables of this container name no task of the framework."""


def own_task(framework: Framework, names: Sequence[str], variables: Mapping[str, str]) -> ThisTask:
    """The task that the variables name. NoOwnTask. `names` are the roles as the job file names them."""
    wanted, index = variables.get(ROLE_VARIABLE, ""), variables.get(INDEX_VARIABLE, "")
    found = next((n for n, role in enumerate(framework.roles) if role.name == wanted), None)
    if found is None:
        listed = ", ".join(role.name for role in framework.roles)
        raise NoOwnTask(f"{ROLE_VARIABLE} is {wanted!r}, but the task roles of the framework are {listed}")
    if not (index.isascii() and index.isdecimal()) or int(index) >= framework.roles[found].number:
        count = framework.roles[found].number
        raise NoOwnTask(f"{INDEX_VARIABLE} is {index!r}, but the task role {wanted} has {count} tasks, counted from 0")
    return ThisTask(names[found], int(index))


def names_in_job(framework: Framework, variables: Mapping[str, str], in_config: Sequence[str] = ()) -> list[str]:
    """The names that the job file has for the framework's roles, in their order. Kubernetes has only lower-case letters
    and digits for them: taskrole_1 is taskrole1. `in_config` are the names in the job's configuration, if known."""
    lists = [in_config, *(variables.get(name, "").split(",") for name in _ROLES_IN_JOB)]
    known = next((names for names in lists if _belong(names, framework.roles)), None)
    if known is not None:
        return list(known)
    own = variables.get(_ROLE_IN_JOB, "")
    return [own if converted_role(own) == role.name else role.name for role in framework.roles]


def _belong(names: Sequence[str], roles: Sequence[FrameworkRole]) -> bool:
    """Both have the job's order, so that names which are the same in Kubernetes do not get mixed up."""
    return len(names) == len(roles) and all(
        role.name in (converted_role(name), name) for name, role in zip(names, roles, strict=True)
    )


def peers(framework: Framework, names: Sequence[str], own: ThisTask, variables: Mapping[str, str]) -> Peers:
    """The addresses and ports of all tasks. Of this one, its own variables count: the framework's record of it may be
    missing, or that of an earlier pod. InvalidFramework if two roles have one name in Kubernetes."""
    _check_names(framework, names)
    found: Peers = {}
    for name, role in zip(names, framework.roles, strict=True):
        tasks = [role.tasks.get(index, _UNKNOWN) for index in range(role.number)]
        if name == own.role:
            tasks[own.number] = _own(tasks[own.number], variables)
        found[name] = [Peer(task.host, ports(role.ports, task.pod_uid, n)) for n, task in enumerate(tasks)]
    return found


def _check_names(framework: Framework, names: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for name, role in zip(names, framework.roles, strict=True):
        other = first.setdefault(role.name, name)
        if other is not name:
            message = (
                f"has the task roles {other} and {name}, which are both {role.name} in Kubernetes; rename one of them"
            )
            raise InvalidFramework(message)


def _own(recorded: TaskPod, variables: Mapping[str, str]) -> TaskPod:
    uid = _first(_OWN_UID, variables) or recorded.pod_uid
    host = recorded.host if uid == recorded.pod_uid else None
    return TaskPod(uid, _first(_OWN_HOST, variables) or host)


def _first(names: Sequence[str], variables: Mapping[str, str]) -> str | None:
    return next((variables[name] for name in names if variables.get(name)), None)
