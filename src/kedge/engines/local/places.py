"""What each task of a local job is given: ports, GPUs, folders; and the TaskSpec that says so."""

from __future__ import annotations

import json
import os
import socket
import uuid
from typing import Any

from kedge.contract import SPEC_FILE, WORK_DIR
from kedge.engines.base import Task
from kedge.engines.machine import gpus, ports
from kedge.engines.machine.port_locks import PortLocks
from kedge.plan.model import Plan
from kedge.plan.task import Placement, task_spec
from kedge.runs.files import write_json
from kedge.runs.folder import Run

HOST = "127.0.0.1"


class Places:
    """The places of all tasks. Ports are new for every job attempt and held by bound sockets until the task starts;
    GPUs belong to a task for the whole job."""

    def __init__(self, plan: Plan, run: Run, secrets_dir: str | None, devices: list[gpus.Gpu]) -> None:
        self._plan, self._run, self._secrets_dir = plan, run, secrets_dir
        self._devices = _share_out(plan, devices)
        self._some_gpus = bool(devices)
        self._rules = tuple(str(path) for n in range(len(plan.rules)) if (path := run.rule_file(n)).exists())
        self._exit_spec = str(run.exit_spec) if run.exit_spec.exists() else None
        self._port_locks = PortLocks()
        self._ports: dict[Task, dict[str, list[int]]] = {}
        self._holds: dict[Task, list[socket.socket]] = {}

    def reserve(self, attempt: int) -> None:
        """Ports for every task of this job attempt, and the file in which peers find each other. CannotRun: too few."""
        self.release()
        self._port_locks = PortLocks()
        sockets = iter(ports.reserve(self._plan.port_count, self._port_locks))
        for role in self._plan.roles:
            for index in range(role.instances):
                held = {label: [next(sockets) for _ in range(n)] for label, n in role.resources.ports.items()}
                task = Task(role.name, index)
                self._ports[task] = {label: [s.getsockname()[1] for s in group] for label, group in held.items()}
                self._holds[task] = [s for group in held.values() for s in group]
        roles: dict[str, list[Any]] = {role.name: [] for role in self._plan.roles}
        for task, numbers in self._ports.items():
            roles[task.role].append({"host": HOST, "ports": numbers})
        self._run.attempt(attempt).mkdir()
        write_json(self._run.peers(attempt), {"roles": roles})

    def holds(self, task: Task) -> list[socket.socket]:
        """The sockets that hold the task's ports; the caller closes them. None are left on a retry."""
        return self._holds.pop(task, [])

    def locks(self, task: Task) -> list[int]:
        """Descriptors that mark the task's GPUs and ports as taken, for as long as anybody has them open."""
        taken = [device.lock_fd for device in self._devices[task]]
        return taken if self._port_locks.fd is None else [*taken, self._port_locks.fd]

    def release(self) -> None:
        """Let go of every port that no task has taken over."""
        self._port_locks.close()
        for sockets in self._holds.values():
            for hold in sockets:
                hold.close()
        self._holds.clear()

    def write_spec(self, task: Task, folder: str, attempt: int, task_attempt: int) -> str:
        """Make the folder of a task attempt with its TaskSpec, and return the path of that."""
        role = self._plan.role(task.role)
        decided = role.resources.gpu == 0 or self._some_gpus  # else it asked for some on a machine without any
        placement = Placement(
            job_id=self._run.id,
            job_attempt=attempt,
            task_attempt=task_attempt,
            uid=str(uuid.uuid4()),
            folder=folder,
            workdir=str(self._run.code / role.code) if role.code else os.path.join(folder, WORK_DIR),
            host=HOST,
            ports=self._ports[task],
            peers_file=str(self._run.peers(attempt)),
            secrets_dir=self._secrets_dir,
            rules=self._rules,
            exit_spec=self._exit_spec,
            extra=gpus.environment(self._devices[task]) if decided else {},
        )
        os.makedirs(folder)
        path = os.path.join(folder, SPEC_FILE)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(task_spec(self._plan, *task, placement).to_json(), file)
        return path


def _share_out(plan: Plan, devices: list[gpus.Gpu]) -> dict[Task, list[gpus.Gpu]]:
    """The job's GPUs, in order, to its tasks, in order. With too few, the last tasks get fewer."""
    left = iter(devices)
    shares = {}
    for role in plan.roles:
        for index in range(role.instances):
            shares[Task(role.name, index)] = [gpu for _, gpu in zip(range(role.resources.gpu), left, strict=False)]
    return shares
