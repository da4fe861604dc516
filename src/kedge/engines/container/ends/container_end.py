"""Finds out how a task's container ended, and removes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kedge.contract import RUNTIME_BROKE, Report
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_answers import EngineGone
from kedge.engines.container.api.engine_retries import EngineRetries
from kedge.engines.container.downloads import Downloads
from kedge.engines.container.ends import failures
from kedge.engines.container.ends.failures import KnownFacts
from kedge.engines.container.ends.lost_files import Looks
from kedge.engines.container.ends.memory_kills import MemoryKills
from kedge.engines.container.placement import ContainerPlaces
from kedge.engines.container.task_container import TaskContainer
from kedge.engines.controller import reports
from kedge.errors import CannotRun

_LONG_BEFORE_SEC = 60.0  # a kill so long before the end of a container did not end it


class ContainerEnd:
    """Inspects ended containers and removes them, unless `keep`, in the threads of its callers."""

    def __init__(
        self, client: Client, places: ContainerPlaces, memory: MemoryKills, downloads: Downloads, looks: Looks,
        with_retries: EngineRetries, ended: Callable[[TaskContainer, Report], None], keep: bool,
    ) -> None:  # fmt: skip
        self._client, self._places, self._memory, self._downloads = client, places, memory, downloads
        self._looks, self._with_retries, self._ended, self._keep = looks, with_retries, ended, keep

    def conclude(self, container: TaskContainer) -> None:
        """Find out how a container ended, report it, and remove it."""
        report = self._report(container)
        self._memory.forget(container.name)
        self._ended(container, report)
        self._downloads.look(container.launch)
        with suppress(CannotRun):  # the end of the job removes the rest
            if self._keep:
                self._client.state(container.name)  # the engine answers once it has released the address
                return
            self._look_for_results(container)
            self._with_retries(lambda: self._client.remove(container.name))

    def _report(self, container: TaskContainer) -> Report:
        try:
            return reports.read(container.launch) or self._without_report(container)
        except EngineGone:
            return failures.of_lost_engine(container.launch)
        except Exception as error:  # any error: the controller must not wait for the task forever
            what = f"kedge cannot find out how the task's container ended: {error}"
            return reports.of_end(container.launch, RUNTIME_BROKE, what)

    def _look_for_results(self, container: TaskContainer) -> None:
        if container.spec and container.up:
            layer = container.process.layer if container.process else None
            self._looks.look(container.launch.task, container.spec, container.workdir, layer)

    def _without_report(self, container: TaskContainer) -> Report:
        state = self._with_retries(lambda: self._client.state(container.name))
        if not container.up:
            self._places.distrust_bundle()
        return failures.of_container(container.launch, state, self._known(container))

    def _known(self, container: TaskContainer) -> KnownFacts:
        kill = self._memory.of(container.name)
        if kill and container.end_seen - kill.at > _LONG_BEFORE_SEC:
            kill = None  # the task survived it
        limit = container.spec.memory if container.spec else None
        return KnownFacts(limit, kill, self._memory.watches(container.name), container.up, container.killed)
