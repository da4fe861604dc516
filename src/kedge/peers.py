"""The addresses and ports of a job's tasks, and the variables in which each task finds them: OpenPAI's names, order and
spelling."""

from __future__ import annotations

from kedge import contract
from kedge.light.types import Iterator, NamedTuple


class Peer(NamedTuple):
    """One task: its host's address, and its ports by label. Both may still be unknown (None, empty)."""

    host: str | None
    ports: dict[str, list[int]]


Peers = dict[str, list[Peer]]

UNKNOWN = Peer(None, {})


class EnvironmentVariable(NamedTuple):
    """One variable. `shared` marks those whose size or number grows with the number of tasks; they can be left out."""

    name: str
    value: str
    shared: bool = False


def peer_variables(own_role: str, own_index: int, peers: Peers) -> Iterator[EnvironmentVariable]:
    """The addresses and ports of all tasks, in OpenPAI's order, for the task `own_index` of `own_role`. Each role
    appears under its own name and, where that is unambiguous, also under the name it has in Kubernetes."""
    for role, tasks in peers.items():
        names = [role, *_alias(role, peers)]
        for index, task in enumerate(tasks):
            own = (role, index) == (own_role, own_index)
            yield from _task_variables(names, index, task, shared=not own)
            if own:
                yield from _container_variables(task)
        for name in names:
            yield EnvironmentVariable(f"PAI_TASK_ROLE_{name}_HOST_LIST", _addresses(tasks), shared=True)
    instances = ",".join(f"{role}:{index}" for role, tasks in peers.items() for index in range(len(tasks)))
    yield EnvironmentVariable("PAI_TASK_ROLE_INSTANCES", instances, shared=True)


def shell_file(variables: tuple[EnvironmentVariable, ...]) -> bytes:
    """The text of runtime_env.sh. It leaves out names that no shell allows, such as those with the name of a role that
    has a hyphen: a shell would stop there, and the labels of ports in them may come from anybody."""
    lines = [f"export {name}={quote(value)}\n" for name, value, _ in variables if _is_shell_name(name)]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _is_shell_name(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def quote(value: str) -> str:
    """Quote `value` as one shell word."""
    return "'" + value.replace("'", "'\\''") + "'"


def _alias(role: str, peers: Peers) -> list[str]:
    converted = contract.converted_role(role)
    same = [name for name in peers if contract.converted_role(name) == converted or name == converted]
    return [converted] if same == [role] and converted != role else []


def _task_variables(names: list[str], index: int, task: Peer, shared: bool) -> Iterator[EnvironmentVariable]:
    for label, ports in task.ports.items():
        numbers = _join(ports)
        for name in names:
            yield EnvironmentVariable(f"PAI_PORT_LIST_{name}_{index}_{label}", numbers, shared)
            yield EnvironmentVariable(f"PAI_{name}_{index}_{label}_PORT", numbers, shared)
    if task.host:
        for name in names:
            yield EnvironmentVariable(f"PAI_HOST_IP_{name}_{index}", task.host, shared)


def _container_variables(task: Peer) -> Iterator[EnvironmentVariable]:
    if task.host:
        yield EnvironmentVariable("PAI_CURRENT_CONTAINER_IP", task.host)
        yield EnvironmentVariable("PAI_CONTAINER_HOST_IP", task.host)
    if _has(task, "http"):
        yield EnvironmentVariable("PAI_CURRENT_CONTAINER_PORT", str(task.ports["http"][0]))
        yield EnvironmentVariable("PAI_CONTAINER_HOST_PORT", str(task.ports["http"][0]))
    if _has(task, "ssh"):
        yield EnvironmentVariable("PAI_CONTAINER_SSH_PORT", str(task.ports["ssh"][0]))
    for label, ports in task.ports.items():
        yield EnvironmentVariable(f"PAI_CONTAINER_HOST_{label}_PORT_LIST", _join(ports))
    pairs = "".join(f"{label}:{_join(ports)};" for label, ports in task.ports.items())
    yield EnvironmentVariable("PAI_CONTAINER_HOST_PORT_LIST", pairs)


def _addresses(tasks: list[Peer]) -> str:
    return ",".join(f"{task.host}:{task.ports['http'][0]}" for task in tasks if task.host and _has(task, "http"))


def _has(task: Peer, label: str) -> bool:
    return bool(task.ports.get(label))


def _join(ports: list[int]) -> str:
    return ",".join(map(str, ports))
