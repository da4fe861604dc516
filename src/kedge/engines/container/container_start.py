"""Starts a task's container: pulls its image, makes its folder, creates and starts the container."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress

from kedge.contract import Report
from kedge.engines.container import storages
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import EngineRefused
from kedge.engines.container.api.engine_retries import EngineRetries
from kedge.engines.container.ends import failures
from kedge.engines.container.ends.memory_kills import MemoryKills
from kedge.engines.container.images.images import Cancelled, Images
from kedge.engines.container.placement import ContainerPlaces
from kedge.engines.container.task_container import TaskContainer
from kedge.engines.controller import reports, time_limits
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.runs.atomic_files import disk_errors


class ContainerStart:
    """Starts containers in the threads of its callers. Any error ends the task attempt: it is reported to `ended`."""

    def __init__(
        self, plan: Plan, client: Client, images: Images, places: ContainerPlaces, memory: MemoryKills,
        with_retries: EngineRetries, ended: Callable[[TaskContainer, Report], None],
    ) -> None:  # fmt: skip
        self._plan, self._client, self._images, self._places = plan, client, images, places
        self._memory, self._with_retries, self._ended = memory, with_retries, ended

    def start(self, container: TaskContainer, before: Future[None] | None) -> None:
        """Start a container once `before` is done: the removal of the previous attempt's container, which has the same
        address."""
        if before:
            wait([before])
        try:
            self._start(container)
        except Cancelled:
            self._fail(container, reports.stopped_before_start(container.launch))
        except Exception as error:  # any error: the controller must not wait for the task forever
            memory = container.spec.memory if container.spec else None
            self._fail(container, failures.of_problem(container.launch, error, memory))

    def _start(self, container: TaskContainer) -> None:
        task, attempt, retry = container.launch.task, container.launch.job_attempt, container.launch.task_attempt
        image = self._with_retries(lambda: self._images.get(self._plan.role(task.role), retry))
        with disk_errors(container.launch.folder):
            wanted = self._places.container(task, attempt, retry, image, time_limits.left(container.deadlines))
        self._with_retries(lambda: self._client.create(wanted))
        self._places.start_holds(task)
        container.spec, container.workdir = wanted, image.workdir
        try:
            self._with_retries(
                lambda: self._client.start(container.name), lambda: self._client.start_if_new(container.name)
            )
        except EngineRefused as error:
            raise storages.explained(error, wanted.volumes) from error
        self._watch_memory(container)

    def _watch_memory(self, container: TaskContainer) -> None:
        """Watch for out-of-memory kills, from before any command runs, so that none is missed."""
        with suppress(CannotRun):  # then less is known about its end
            container.process = self._client.process(container.name)
            self._memory.watch(container.name, container.process.identity, container.process.pid)

    def _fail(self, container: TaskContainer, report: Report) -> None:
        with suppress(CannotRun):
            self._client.remove(container.name)
        self._ended(container, report)
