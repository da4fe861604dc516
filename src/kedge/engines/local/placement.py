"""Assigns ports, GPUs and folders to the tasks of a local job, and writes their TaskSpecs."""

from __future__ import annotations

import os
from pathlib import Path

from kedge.claims.ports import HeldPort
from kedge.contract import CODE_DIR, SPEC_FILE, WORK_DIR, TaskTimeLimit
from kedge.engines.base import Task
from kedge.engines.machine import gpus
from kedge.engines.machine.resources import HeldPorts, share_out, write_peers
from kedge.own_files import clear
from kedge.plan.model import Plan, RolePlan
from kedge.plan.task import Placement, task_spec
from kedge.runs.atomic_files import write_json
from kedge.runs.folder import Run
from kedge.runs.storage_links import link_storages

HOST = "127.0.0.1"

_RANDOM_UUID = Path("/proc/sys/kernel/random/uuid")  # as uuid.uuid4, which is slow to load


class LocalPlaces:
    """The resources of all tasks. Ports are new for every job attempt and held by bound sockets until the task starts;
    a task keeps its GPUs for the whole job."""

    def __init__(self, plan: Plan, run: Run, secrets_dir: str | None, devices: list[gpus.Gpu]) -> None:
        self._plan, self._run, self._secrets_dir = plan, run, secrets_dir
        self._devices = share_out(plan, devices)
        self._some_gpus = bool(devices)
        self._rules = tuple(str(path) for n in range(len(plan.rules)) if (path := run.rule_file(n)).exists())
        self._exit_spec = str(run.exit_spec) if run.exit_spec.exists() else None
        self._ports = HeldPorts(plan)

    def reserve(self, attempt: int) -> None:
        """Reserve ports for every task of this job attempt and write the peers file. CannotRun if there are too few."""
        self._ports.reserve()
        self._run.make_attempt(attempt)
        link_storages(self._run, {mount.name: mount.folder for mount in self._plan.mounts if mount.folder})
        write_peers(self._run, attempt, dict.fromkeys(self._ports.ports, HOST), self._ports.ports)

    def holds(self, task: Task) -> list[HeldPort]:
        """The sockets that hold the task's ports; the caller closes them. Empty on a retry."""
        return self._ports.holds(task)

    def locks(self, task: Task) -> list[int]:
        """Descriptors that mark the task's GPUs and ports as taken as long as any process has them open."""
        return [device.claim_fd for device in self._devices[task]] + self._ports.locks

    def release(self) -> None:
        """Release every port that no task has taken over."""
        self._ports.release()

    def write_spec(
        self, task: Task, folder: str, attempt: int, task_attempt: int, limits: tuple[TaskTimeLimit, ...]
    ) -> str:
        """Make the folder of a task attempt with its TaskSpec, and return the path of the TaskSpec."""
        role = self._plan.role(task.role)
        # A task that requests GPUs on a machine without any keeps the user's own variables.
        sets_gpu_variables = role.resources.gpu == 0 or self._some_gpus
        placement = Placement(
            job_id=self._run.id,
            job_attempt=attempt,
            task_attempt=task_attempt,
            uid=_RANDOM_UUID.read_text().strip(),
            folder=folder,
            workdir=self._workdir(role, folder),
            code=str(self._run.code / role.code) if role.code and not self._plan.shares_code else None,
            host=HOST,
            ports=self._ports.ports[task],
            peers_file=str(self._run.peers(attempt)),
            job_dir=str(self._run.job_dir),
            secrets_dir=self._secrets_dir,
            rules=self._rules,
            exit_spec=self._exit_spec,
            time_limits=limits,
            storages={mount.name: str(self._run.storages / mount.name) for mount in self._plan.mounts if mount.folder},
            extra=gpus.environment(self._devices[task]) if sets_gpu_variables else {},
        )
        clear(folder)  # an earlier attempt of a task may have put something there
        os.makedirs(folder)
        path = os.path.join(folder, SPEC_FILE)
        write_json(Path(path), task_spec(self._plan, *task, placement).to_json(), mode=0o644, synced=False)
        return path

    def _workdir(self, role: RolePlan, folder: str) -> str:
        if role.code is None:
            return os.path.join(folder, WORK_DIR)
        return str(self._run.code / role.code) if self._plan.shares_code else os.path.join(folder, CODE_DIR, role.code)
