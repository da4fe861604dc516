"""How a task's container starts: its image, its folder, the container itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress

from kedge.contract import Report
from kedge.engines.container import failures
from kedge.engines.container.client import Client
from kedge.engines.container.engine_retries import EngineRetries
from kedge.engines.container.images import Cancelled, Images
from kedge.engines.container.memory_kills import MemoryKills
from kedge.engines.container.placement import ContainerPlaces
from kedge.engines.container.task_container import TaskContainer
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.runs.atomic_files import disk_errors


class ContainerStart:
    """Starts containers, in threads of the caller. Whatever goes wrong is the end of that task attempt: `ended`."""

    def __init__(
        self, plan: Plan, client: Client, images: Images, places: ContainerPlaces, memory: MemoryKills,
        patiently: EngineRetries, ended: Callable[[TaskContainer, Report], None],
    ) -> None:  # fmt: skip
        self._plan, self._client, self._images, self._places = plan, client, images, places
        self._memory, self._patiently, self._ended = memory, patiently, ended

    def start(self, made: TaskContainer, before: Future[None] | None) -> None:
        """Start a container, once that of the attempt `before` is gone, which has the same address."""
        if before:
            wait([before])
        try:
            self._start(made)
        except Cancelled:
            self._fail(made, failures.stopped_before_start(made.launch))
        except Exception as error:  # whatever it is, the task must not be waited for for ever
            self._fail(made, failures.of_problem(made.launch, error))

    def _start(self, made: TaskContainer) -> None:
        task, attempt, retry = made.launch.task, made.launch.job_attempt, made.launch.task_attempt
        image = self._patiently(lambda: self._images.get(self._plan.role(task.role), retry))
        with disk_errors(made.launch.folder):
            wanted = self._places.container(task, attempt, retry, image)
        self._patiently(lambda: self._client.create(wanted))
        self._places.start_holds(task)
        made.spec, made.workdir = wanted, image.workdir
        self._patiently(lambda: self._client.start(made.name), lambda: self._client.start_if_new(made.name))
        self._watch_memory(made)

    def _watch_memory(self, made: TaskContainer) -> None:
        """Before any command runs, so that nothing is missed."""
        with suppress(CannotRun):  # it is only known less of, then
            made.process = self._client.process(made.name)
            self._memory.watch(made.name, made.process.identity, made.process.pid)

    def _fail(self, made: TaskContainer, report: Report) -> None:
        with suppress(CannotRun):
            self._client.remove(made.name)
        self._ended(made, report)
