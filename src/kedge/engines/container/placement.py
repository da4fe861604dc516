"""Assigns addresses, ports and GPUs to the tasks of a job in containers, and makes the folders that they mount."""

from __future__ import annotations

import json
import os
import shutil
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kedge.bundle import build
from kedge.bundle.build import Bundle
from kedge.contract import (
    CODE_DIR,
    DATA_CACHE_DIR,
    FETCHED_DIR,
    JOB_DIR,
    OUTPUT_DIR,
    PAI_DIR,
    PAI_HOME,
    RUNTIME_D,
    SECRET_DOCUMENT,
    SECRET_VALUES,
    SPEC_FILE,
    LogPolicy,
    TaskTimeLimit,
)
from kedge.engines.base import Task
from kedge.engines.container.api.engine_answers import Facts, LocalImage
from kedge.engines.container.rendering import render
from kedge.engines.container.rendering.container_spec import Bind, ContainerSpec, Volume
from kedge.engines.container.rendering.render import GATE, STATUS, ContainerOptions, ContainerPlace
from kedge.engines.machine import gpus
from kedge.engines.machine.resources import HeldPorts, share_out, write_peers
from kedge.plan.model import Plan
from kedge.plan.task import Placement, task_spec
from kedge.runs.atomic_files import write_atomic
from kedge.runs.folder import Run

HOST = "127.0.0.1"
FIRST_PORT = 15000
_ENTRY = f'#!/bin/sh\nexec {PAI_HOME}/kedge/runtime "$@"\n'.encode()
_OPEN = 0o777  # for any user of an image; the run folder itself keeps other users out


class Given(NamedTuple):
    """What all tasks of a run share. `cdi`: whether GPUs are requested by their CDI names."""

    facts: Facts
    bundle: Bundle
    secrets_dir: str | None
    devices: list[gpus.Gpu]
    cdi: bool
    infiniband: tuple[str, ...]
    cache: str | None
    storages: tuple[Bind, ...] = ()
    volumes: tuple[Volume, ...] = ()
    logs: LogPolicy = LogPolicy()
    options: ContainerOptions = ContainerOptions()


class ContainerPlaces:
    """The placement of all tasks of a run. `network` and `addresses` are None on the machine's own network, where ports
    are reserved; in a network of the job's own, ports are simply numbered."""

    def __init__(
        self, plan: Plan, run: Run, given: Given, network: str | None, addresses: Mapping[Task, str] | None
    ) -> None:
        self._plan, self._run, self._given = plan, run, given
        self._network, self._addresses = network, addresses
        self._devices = share_out(plan, given.devices)
        self._held = HeldPorts(plan)
        self._ports = numbered(plan)
        make_folder(run.job_dir, _OPEN)
        open_up(run.job_dir)  # it may hold what an earlier run has left
        if run.code.is_dir():
            open_up(run.code)

    def distrust_bundle(self) -> None:
        """Check the whole bundle before its next use, because a supervisor ended without a report."""
        build.distrust(self._given.bundle)

    @property
    def cache(self) -> str | None:
        """The folder of the data cache, if there is one."""
        return self._given.cache

    def shared(self, attempt: int) -> Path:
        """The folder that all tasks of a job attempt share."""
        return self._run.attempt(attempt) / "shared"

    def reserve(self, attempt: int) -> None:
        """Make what all tasks of a job attempt share. CannotRun if there are too few ports."""
        if self._addresses is None:
            self._held.reserve()
            self._ports = self._held.ports
        hosts = self._addresses or dict.fromkeys(self._ports, HOST)
        self._run.make_attempt(attempt)
        shared = self.shared(attempt)
        make_folder(shared, 0o755)
        write_peers(self._run, attempt, hosts, self._ports)
        for path in (self._run.peers(attempt), self._run.exit_spec, *self._rules()):
            if path.exists():
                shutil.copyfile(path, shared / path.name)
                os.chmod(shared / path.name, 0o644)
        for name in (GATE, STATUS):
            os.mkfifo(shared / name)
            (shared / name).chmod(0o666)

    def start_holds(self, task: Task) -> None:
        """Free the ports of a task whose container is about to start."""
        for hold in self._held.holds(task):
            hold.close()

    def release(self) -> None:
        """Release every port."""
        self._held.release()

    def container(
        self,
        task: Task,
        attempt: int,
        task_attempt: int,
        image: LocalImage,
        limits: tuple[TaskTimeLimit, ...] = (),
    ) -> ContainerSpec:
        """Make the folder of a task attempt with its TaskSpec, and return the container that it needs."""
        place = self._place(task, attempt, task_attempt)
        hosts = self._addresses or dict.fromkeys(self._ports, HOST)
        role = self._plan.role(task.role)
        shared, exit_spec = self.shared(attempt), self._run.exit_spec.name
        placement = Placement(
            job_id=self._run.id,
            job_attempt=attempt,
            task_attempt=task_attempt,
            uid=place.uid,
            folder=render.log_folder(place.uid),
            workdir=f"{render.SCRIPTS}/{role.code}" if role.code else image.workdir,
            host=hosts[task],
            ports=self._ports[task],
            peers_file=f"{render.SHARED}/peers.json",
            job_dir=render.JOB_FOLDER,
            output_dir=render.OUTPUT,
            code=render.SNAPSHOT if role.code and not self._plan.shares_code else None,
            secrets_dir=render.SECRETS if place.secrets else None,
            extra=self._visible(task),
            logs=self._given.logs,
            rules=tuple(f"{render.SHARED}/{path.name}" for path in self._rules()),
            exit_spec=f"{render.SHARED}/{exit_spec}" if (shared / exit_spec).exists() else None,
            time_limits=limits,
            storages=self._plan.mount_paths,
        )
        lay_out(place.folder, task_spec(self._plan, *task, placement)._replace(pai_dir=render.PAI).to_json(), place)
        return render.render(self._plan, task, place, image, self._given.facts)

    def _place(self, task: Task, attempt: int, task_attempt: int) -> ContainerPlace:
        given = self._given
        role = self._plan.role(task.role)
        peers = {render.hostname(peer): address for peer, address in (self._addresses or {}).items() if address}
        return ContainerPlace(
            run_id=self._run.id,
            job_attempt=attempt,
            task_attempt=task_attempt,
            uid=str(uuid.uuid4()),
            folder=str(self._run.task(task.role, task.task_index, attempt, task_attempt)),
            shared=str(self.shared(attempt)),
            job_dir=str(self._run.job_dir),
            bundle=given.bundle,
            network=self._network or "host",
            address=(self._addresses or {}).get(task) or None,
            hosts=peers,
            code=str(self._run.code / role.code) if role.code else None,
            shares_code=self._plan.shares_code,
            cache=given.cache,
            secrets=secret_binds(given.secrets_dir),
            storages=given.storages,
            volumes=given.volumes,
            gpus=tuple(device_name(gpu, given.cdi) for gpu in self._devices[task]),
            infiniband=given.infiniband,
            options=given.options,
        )

    def _rules(self) -> list[Path]:
        files = (self._run.rule_file(number) for number in range(len(self._plan.rules)))
        return [path for path in files if path.exists()]

    def _visible(self, task: Task) -> dict[str, str]:
        """The GPU variable of a task: a container sees only its own GPUs, numbered from 0."""
        count = len(self._devices[task])
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))} if count else {}


def numbered(plan: Plan) -> dict[Task, dict[str, list[int]]]:
    """Ports for every task, all different within the job."""
    number = FIRST_PORT
    found: dict[Task, dict[str, list[int]]] = {}
    for role in plan.roles:
        for index in range(role.instances):
            task = found[Task(role.name, index)] = {}
            for label, count in role.resources.ports.items():
                task[label] = list(range(number, number + count))
                number += count
    return found


def device_name(gpu: gpus.Gpu, cdi: bool) -> str:
    """A GPU's name for the container engine."""
    return f"nvidia.com/gpu={gpu.device.uuid}" if cdi else gpu.device.uuid


def secret_binds(folder: str | None) -> dict[str, str]:
    """The secret files by their name in the container. Any user of a container can read them; on this machine their
    folder is private."""
    if folder is None:
        return {}
    files = {name: os.path.join(folder, name) for name in (SECRET_VALUES, SECRET_DOCUMENT)}
    for path in files.values():
        os.chmod(path, 0o644)
    return files


def lay_out(folder: str, task: dict[str, object], place: ContainerPlace) -> None:
    """Make the folders of one task attempt as its container will see them, mount points included, and its TaskSpec."""
    pai = f"{folder}/{PAI_DIR}"
    inner = [f"{pai}/{name}" for name in (f"logs/{place.uid}", "kedge", "shared", OUTPUT_DIR, JOB_DIR)]
    if place.code:
        inner += [f"{pai}/scripts/{Path(place.code).name}" if place.shares_code else f"{pai}/snapshot"]
    inner += [f"{pai}/{DATA_CACHE_DIR}"] if place.cache else []
    for path in inner:
        make_folder(path, 0o755)
    for path in (folder, pai, f"{pai}/{RUNTIME_D}", f"{pai}/{FETCHED_DIR}", f"{folder}/{OUTPUT_DIR}"):
        make_folder(path, _OPEN)
    if place.secrets:
        make_folder(f"{pai}/secrets", _OPEN)
    if place.code and not place.shares_code:
        make_folder(f"{pai}/scripts", 0o755)
        make_folder(f"{folder}/{CODE_DIR}", _OPEN)
    write(f"{folder}/{SPEC_FILE}", json.dumps(task).encode(), 0o644)
    write(f"{pai}/runtime", _ENTRY, 0o755)


def make_folder(path: str | Path, mode: int) -> None:
    """Make a folder with exactly this mode, regardless of the umask."""
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)


def write(path: str, data: bytes, mode: int) -> None:
    """Write a file atomically with exactly this mode, regardless of the umask."""
    write_atomic(Path(path), data, synced=False)
    os.chmod(path, mode)


def open_up(folder: Path) -> None:
    """Let every user read and write the content of a folder, and execute what its owner may execute. This holds for
    the copies of a snapshot, since containers get the snapshot itself read-only."""
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) | (0o777 if mode & stat.S_IXUSR else 0o666))
