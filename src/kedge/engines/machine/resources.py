"""Assigns the ports and GPUs of this machine to the tasks of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kedge.claims import ports
from kedge.claims.locks import Claims
from kedge.claims.ports import HeldPort
from kedge.engines.base import Task
from kedge.engines.machine import gpus
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.runs.atomic_files import write_json
from kedge.runs.folder import Run


class HeldPorts:
    """The ports of all tasks of a job attempt, which are new for every attempt and held by bound sockets until the task
    starts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._claims = Claims()
        self._holds: dict[Task, list[HeldPort]] = {}
        self.ports: dict[Task, dict[str, list[int]]] = {}

    def reserve(self) -> None:
        """Reserve ports for every task. CannotRun if there are too few."""
        self.release()
        self._claims = Claims()
        sockets = iter(ports.reserve(self._plan.port_count, self._claims))
        for role in self._plan.roles:
            for index in range(role.instances):
                held = {label: [next(sockets) for _ in range(n)] for label, n in role.resources.ports.items()}
                task = Task(role.name, index)
                self.ports[task] = {label: [s.number for s in group] for label, group in held.items()}
                self._holds[task] = [s for group in held.values() for s in group]

    def holds(self, task: Task) -> list[HeldPort]:
        """The sockets that hold the task's ports; the caller closes them. Empty on a retry."""
        return self._holds.pop(task, [])

    @property
    def locks(self) -> list[int]:
        """Descriptors that mark the ports as taken as long as any process has them open."""
        return [] if self._claims.fd is None else [self._claims.fd]

    def release(self) -> None:
        """Release every port that no task has taken over."""
        self._claims.close()
        for sockets in self._holds.values():
            for hold in sockets:
                hold.close()
        self._holds.clear()


def write_peers(
    run: Run, attempt: int, hosts: Mapping[Task, str], ports: Mapping[Task, Mapping[str, list[int]]]
) -> None:
    """Write the file with the addresses and ports of all tasks of a job attempt."""
    roles: dict[str, list[object]] = {}
    for task, numbers in ports.items():
        roles.setdefault(task.role, []).append({"host": hosts[task], "ports": numbers})
    # Not synced: no task outlives a crash of the machine.
    write_json(run.peers(attempt), {"roles": roles}, mode=0o644, synced=False)


def gpus_wanted(plan: Plan, allow_fewer: bool) -> int:
    """The number of GPUs to claim: those that the job requests or, with `allow_fewer`, as many of them as there are.
    CannotRun if there are too few: all tasks of a job run at the same time, so the job could never start."""
    present = gpus.count() if plan.gpu_count else 0
    if present < plan.gpu_count and not allow_fewer:
        advice = "use --allow-fewer-gpus to start it " + ("with fewer" if present else "without any")
        raise CannotRun(f"{_requested(plan)}, and {gpus.present()}; {advice}")
    return min(present, plan.gpu_count)


def too_few_gpus(plan: Plan) -> str | None:
    """A note about a job that gets fewer GPUs than it requests, because its submitter allows that."""
    if not plan.gpu_count or gpus.count() >= plan.gpu_count:
        return None
    result = "the last tasks get fewer" if gpus.count() else "tasks get none"
    return f"{_requested(plan)}, and {gpus.present()}: {result}"


def _requested(plan: Plan) -> str:
    each = [_per_role(role.name, role.instances, role.resources.gpu) for role in plan.roles if role.resources.gpu]
    return f"the job requests {plan.gpu_count} GPU{'s' if plan.gpu_count > 1 else ''} ({', '.join(each)})"


def _per_role(name: str, instances: int, count: int) -> str:
    return f"{name}: {count}" if instances == 1 else f"{name}: {count} for each of {instances} tasks"


def share_out(plan: Plan, devices: Sequence[gpus.Gpu]) -> dict[Task, list[gpus.Gpu]]:
    """Assign the job's GPUs, in order, to its tasks, in order. If there are too few, the last tasks get fewer."""
    left = iter(devices)
    shares = {}
    for role in plan.roles:
        for index in range(role.instances):
            shares[Task(role.name, index)] = [gpu for _, gpu in zip(range(role.resources.gpu), left, strict=False)]
    return shares
