"""The folders and TaskSpecs of a job's tasks on a cluster. Where its nodes do not share the run folder with the
controller, each task's agent changes the paths for its node."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kedge.contract import CODE_DIR, SPEC_FILE, WORK_DIR, TaskSpec, TaskTimeLimit
from kedge.engines.base import Task
from kedge.link.keys import LinkKeys, task_token
from kedge.own_files import clear
from kedge.plan.model import Plan, RolePlan
from kedge.plan.task import Placement, task_spec
from kedge.runs.atomic_files import write_json
from kedge.runs.folder import Run
from kedge.runs.storage_links import link_storages

_RANDOM_UUID = Path("/proc/sys/kernel/random/uuid")  # as uuid.uuid4, which is slow to load
Ports = Mapping[str, list[int]]


def task_tokens(keys: LinkKeys, plan: Plan, attempt: int) -> dict[str, list[str]]:
    """The tokens of all tasks of a job attempt, by role and index: those of agents for first attempts of tasks."""
    return {
        role.name: [task_token(keys, attempt, role.name, index) for index in range(role.instances)]
        for role in plan.roles
    }


class ClusterPlaces:
    """Writes what the agents of a run's tasks need in the run folder. Its GPU variables are left to the cluster, which
    gives each task its devices; the secrets' folder is the agent's own."""

    def __init__(self, plan: Plan, run: Run, *, shared: bool = True) -> None:
        self._plan, self._run, self._shared = plan, run, shared
        self._rules = tuple(str(path) for n in range(len(plan.rules)) if (path := run.rule_file(n)).exists())
        self._exit_spec = str(run.exit_spec) if run.exit_spec.exists() else None

    def make_attempt(self, attempt: int) -> None:
        """Make the folder of a job attempt. DiskFull."""
        self._run.make_attempt(attempt)
        if self._shared:
            link_storages(self._run, {mount.name: mount.folder for mount in self._plan.mounts if mount.folder})

    def folder(self, task: Task, attempt: int, task_attempt: int) -> str:
        """The folder of a task attempt."""
        return str(self._run.task(task.role, task.task_index, attempt, task_attempt))

    def write_spec(
        self, task: Task, attempt: int, task_attempt: int, host: str, ports: Ports, limits: tuple[TaskTimeLimit, ...]
    ) -> TaskSpec:
        """Make the folder of a task attempt with its TaskSpec. OSError, DiskFull."""
        role, folder = self._plan.role(task.role), self.folder(task, attempt, task_attempt)
        placement = Placement(
            job_id=self._run.id,
            job_attempt=attempt,
            task_attempt=task_attempt,
            uid=_RANDOM_UUID.read_text().strip(),
            folder=folder,
            workdir=self._workdir(role, folder),
            code=str(self._run.code / role.code) if role.code and not self._plan.shares_code else None,
            host=host,
            ports={label: list(numbers) for label, numbers in ports.items()},
            peers_file=str(self._run.peers(attempt)),
            job_dir=str(self._run.job_dir),
            rules=self._rules,
            exit_spec=self._exit_spec,
            time_limits=limits,
            storages=dict(self._storages()),
        )
        clear(folder)  # an earlier attempt of a task may have put something there
        os.makedirs(folder)
        spec = task_spec(self._plan, *task, placement)
        write_json(Path(folder, SPEC_FILE), spec.to_json(), mode=0o644, synced=False)
        return spec

    def _storages(self) -> Iterator[tuple[str, str]]:
        """Where a task finds its storages: by links in the run folder, or mounted where the job wants them if its node
        does not have that folder."""
        for name, path in self._plan.mount_paths.items():
            mount = next(each for each in self._plan.mounts if each.name == name)
            if self._shared and mount.folder:
                yield name, str(self._run.storages / name)
            elif not self._shared and mount.place:
                yield name, path

    def files(self) -> dict[str, Any]:
        """The content of the files that a TaskSpec names, by the last part of their names, for nodes that do not have
        them. OSError."""
        paths = [*self._rules, *([self._exit_spec] if self._exit_spec else [])]
        return {os.path.basename(path): json.loads(Path(path).read_bytes()) for path in paths}

    def _workdir(self, role: RolePlan, folder: str) -> str:
        if role.code is None:
            return os.path.join(folder, WORK_DIR)
        return str(self._run.code / role.code) if self._plan.shares_code else os.path.join(folder, CODE_DIR, role.code)

    def write_peers(self, attempt: int, peers: Mapping[str, Any]) -> None:
        """Write the addresses and ports of all tasks. They outlive a controller: another one reads them again."""
        write_json(self._run.peers(attempt), peers, mode=0o644)
