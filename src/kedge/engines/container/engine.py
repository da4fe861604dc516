"""The container engine: runs every task on this machine, in a container of the image that the job names."""

from __future__ import annotations

import functools
import importlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from kedge import xdg
from kedge.bundle import build, layers
from kedge.bundle.build import Bundle
from kedge.engines.base import EngineRequest, ExecRequest, JobOutcome, Note, Task, TaskAttempt
from kedge.engines.container import dry_run, leftovers, network, notes, storages
from kedge.engines.container.api import connection
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.connection import Connection
from kedge.engines.container.api.engine_answers import Facts
from kedge.engines.container.api.engine_facts import facts_of
from kedge.engines.container.backend import ContainerBackend
from kedge.engines.container.images import images
from kedge.engines.container.options import ACCEPTS, DEFAULT_PIDS
from kedge.engines.container.placement import ContainerPlaces, Given, make_folder
from kedge.engines.container.rendering import container_spec
from kedge.engines.container.rendering.render import ContainerOptions
from kedge.engines.controller.job import run_job
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.machine import gpus, limits, secret_files, stop_run
from kedge.engines.machine.resources import gpus_wanted, too_few_gpus
from kedge.errors import CannotRun, InputError
from kedge.late_patterns import late_pattern
from kedge.open_files import raise_limit
from kedge.plan.model import Plan
from kedge.resolve.model import Secrets
from kedge.runs.data_cache import folder as data_cache_folder
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

_CDI = (Path("/etc/cdi"), Path("/var/run/cdi"))
_INFINIBAND = Path("/dev/infiniband")
_USER = late_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_KEPT = Note("the containers are kept until kedge rm", in_summary=True)
_ROOTLESS = ("keep-id", "nomap")  # user namespace modes of rootless Podman


class ContainerEngine:
    """`allow_fewer_gpus`: if there are too few GPUs, start with those that there are instead of failing. `network`:
    `job` for a network of the job's own, or `host`. `keep` keeps ended containers for inspection. `user`, `userns` and
    `pids_limit` are as in ContainerSpec."""

    name = "container"
    accepts: ClassVar = ACCEPTS
    in_cluster: ClassVar = False

    def __init__(
        self,
        allow_fewer_gpus: bool = False,
        network: str = "job",
        keep: bool = False,
        user: str | None = None,
        userns: str | None = None,
        pids_limit: int = DEFAULT_PIDS,
    ) -> None:
        self.options = {
            "allow_fewer_gpus": allow_fewer_gpus, "network": network, "keep": keep, "user": user,
            "userns": userns, "pids_limit": pids_limit,
        }  # fmt: skip
        self._allow_fewer_gpus, self._network, self._keep = allow_fewer_gpus, network, keep
        self._options = ContainerOptions(user, userns, pids_limit)

    @classmethod
    def load(cls) -> None:
        connection.client_class()

    @functools.cached_property
    def _facts(self) -> Facts:
        """What the engine reports about this machine. CannotRun if there is no engine."""
        with Connection(connection.address()) as connected:
            return facts_of(connected.address, connected.client)

    def notes(self, plan: Plan) -> tuple[Note, ...]:
        found = tuple(map(Note, self._notes_at_submit(plan)))
        return (*found, _KEPT) if self._keep else found

    def _notes_at_submit(self, plan: Plan) -> Iterator[str]:
        try:
            facts, to_do = self._facts, build.to_do(_layers(plan))
        except CannotRun:  # `check` reports it
            return
        fewer = too_few_gpus(plan) if self._allow_fewer_gpus else None
        yield from notes.of(plan, facts, fewer, bool(infiniband()))
        if self._network == "job":
            yield from notes.loopback(plan)
        if to_do:
            yield to_do

    def check(self, plan: Plan) -> None:
        assert self._facts
        _check_images(plan)
        storages.check(plan, self._facts)
        self._check_options()
        if self._network == "host":
            limits.check(tasks=0, ports=plan.port_count)
        else:
            network.check(plan.task_count)
        build.ensure(_layers(plan))
        if gpus_wanted(plan, self._allow_fewer_gpus) and not self._facts.gpus:
            raise CannotRun(
                f"{self._facts.name} cannot give GPUs to the job's tasks; use Podman 5.4 or newer, or Docker"
            )

    def _check_options(self) -> None:
        user, userns = self._options.user, self._options.userns
        if user is not None and not _USER.fullmatch(user):
            raise InputError(f"--user {user}: write it as UID or UID:GID, or with names that the image defines")
        if userns is None or userns == "host":
            return
        if not self._facts.podman:
            raise CannotRun(f"--userns {userns}: {self._facts.name} supports only host; Podman has more modes")
        if userns.partition(":")[0] in _ROOTLESS and not self._facts.rootless:
            raise CannotRun(f"--userns {userns}: only rootless Podman supports it, and this Podman runs as root")

    def requests(self, plan: Plan, task: Task | None = None) -> tuple[EngineRequest, ...]:
        with Connection(connection.address()) as connected:
            client = connected.client
            name = f"{plan.job}-{task.role}-{task.task_index}" if task else "RUN"
            given = self._given(plan, name, build.ensure(_layers(plan)), facts_of(connected.address, client))
            on_host = self._network == "host"
            if task is None:
                return tuple(dry_run.of_role(plan, role.name, client, given, on_host) for role in plan.roles)
            folder = Path(cache_folder()) / "plans" / name
            return (dry_run.of_task(plan, task, client, given, on_host, folder),)

    def secrets_dir(self, run: Run) -> str:
        return secret_files.location(run)

    def run(self, plan: Plan, run: Run, secrets: Secrets) -> JobOutcome:
        def body(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
            if ":" in str(run.path):
                raise CannotRun(f"container engines cannot mount paths with a colon: {run.path}; set XDG_STATE_HOME")
            raise_limit()  # every reserved port and every container's control group takes a descriptor
            address = connection.address()
            leftovers.note_engine(run, address)
            connected = stack.enter_context(Connection(address))
            stack.callback(self._leave_nothing, connected.client, run, log)
            given = self._taken(plan, run, secrets, connected, stack)
            labels = {container_spec.JOB: run.id, container_spec.USER: plan.user}
            storages.create(connected.client, given.volumes, labels)
            places = self._places(plan, run, given, connected.client, labels)
            pulled = images.Images(
                connected.client, given.facts.architecture, secrets.texts, lambda text: backend.note(text)
            )
            backend = ContainerBackend(plan, run, connected.client, pulled, places, log, self._keep, connected.restore)
            stack.callback(backend.close)
            return run_job(plan, run, backend, stops, log, random.random)

        return controlled(run, body, plan)

    def _leave_nothing(self, client: Client, run: Run, log: JobLog) -> None:
        """Remove the job's containers and networks at its end. If the engine no longer answers, only a note is
        logged."""
        if self._keep:
            return
        try:
            leftovers.remove(client, run.id)
        except CannotRun as error:
            log(
                JobEvent.NOTE, text=f"containers or networks of the job may be left: {error}; remove them with kedge rm"
            )

    def _given(self, plan: Plan, run_id: str, bundle: Bundle, facts: Facts) -> Given:
        """What all tasks of a run share, except its secrets and GPUs."""
        mounted, volumes = storages.of(plan, run_id, facts)
        return Given(
            facts=facts,
            bundle=bundle,
            secrets_dir=None,
            devices=[],
            cdi=facts.cdi and any(folder.is_dir() for folder in _CDI),
            infiniband=infiniband(),
            options=self._options,
            cache=data_cache(),
            storages=mounted,
            volumes=volumes,
        )

    def _taken(self, plan: Plan, run: Run, secrets: Secrets, connected: Connection, stack: ExitStack) -> Given:
        """All that they share, with secrets and GPUs, as long as the stack is open."""
        wanted = gpus_wanted(plan, self._allow_fewer_gpus)
        client = connected.client
        busy = busy_gpus(client) if wanted else frozenset()
        bundle, facts = stack.enter_context(build.held(_layers(plan))), facts_of(connected.address, client)
        return self._given(plan, run.id, bundle, facts)._replace(
            secrets_dir=stack.enter_context(secret_files.written(secret_files.location(run), secrets)),
            devices=stack.enter_context(gpus.acquired(wanted, busy=busy)),
        )

    def _places(self, plan: Plan, run: Run, given: Given, client: Client, labels: dict[str, str]) -> ContainerPlaces:
        if self._network == "host":
            return ContainerPlaces(plan, run, given, None, None)
        name = f"kedge-{run.id}"
        subnet = network.create(client, name, plan.task_count, labels)
        return ContainerPlaces(
            plan, run, given, name, network.addresses(subnet, (Task(*task) for task in plan.tasks()))
        )

    def submit(self, run: Run, plan: Plan, say: Callable[[str], object]) -> None:
        raise NotImplementedError("this engine's controller runs on the submitter's machine")

    def stop(self, run: Run, kill: bool) -> tuple[str, ...]:
        return stop_run.stop(run, kill, leftovers.end)

    def forward(self, run: Run, number: int) -> None:
        stop_run.forward(run, number)

    def suspended(self, run: Run) -> int | None:
        return stop_run.suspended(run)

    def exec(self, run: Run, attempt: TaskAttempt, request: ExecRequest) -> int:
        code: int = importlib.import_module("kedge.engines.container.exec").run(run, attempt, request)
        return code

    def forget(self, run: Run) -> None:
        leftovers.forget(run)


def _layers(plan: Plan) -> tuple[str, ...]:
    """The layers of the bundle that the job's tasks need."""
    return (layers.CORE, layers.NET, *((layers.SSH,) if plan.has_ssh else ()))


def _check_images(plan: Plan) -> None:
    """InputError for a local image that is not the one in the lock file."""
    pinned = [role for role in plan.roles if role.pin]
    if not pinned:
        return
    with Connection(connection.address()) as connected:
        for role in pinned:
            try:
                images.here(connected.client, role)
            except images.ImageProblem as problem:
                raise InputError(str(problem)) from problem


def busy_gpus(client: Client) -> frozenset[str]:
    """The UUIDs of the GPUs that containers use. Containers may outlive their controller, and so the locks that it
    held."""
    return frozenset(uuid for value in client.labels(container_spec.GPUS) for uuid in value.split(","))


def infiniband() -> tuple[str, ...]:
    """The InfiniBand devices of this machine."""
    return tuple(sorted(map(str, _INFINIBAND.iterdir()))) if _INFINIBAND.is_dir() else ()


def cache_folder() -> str:
    """The cache folder for this user's containers. CannotRun for a user without a home folder."""
    return xdg.cache(xdg.CONTAINERS, os.environ)


def data_cache() -> str | None:
    """The folder of downloads that this user's tasks share, read-only in containers; None if it cannot be made."""
    try:
        make_folder(folder := data_cache_folder(), 0o755)
    except OSError:  # without the cache, every task downloads for itself
        return None
    return str(folder)
