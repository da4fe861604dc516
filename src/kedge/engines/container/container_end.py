"""How a task's container ended, and its removal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kedge.contract import RUNTIME_BROKE, Report
from kedge.engines.container import failures
from kedge.engines.container.client import Client
from kedge.engines.container.downloads import Downloads
from kedge.engines.container.engine_answers import EngineGone
from kedge.engines.container.engine_retries import EngineRetries
from kedge.engines.container.failures import KnownFacts
from kedge.engines.container.lost_files import Looks
from kedge.engines.container.memory_kills import MemoryKills
from kedge.engines.container.placement import ContainerPlaces
from kedge.engines.container.task_container import TaskContainer
from kedge.engines.controller import reports
from kedge.errors import CannotRun

_LONG_BEFORE_SEC = 60.0  # a kill in a container is not what ended it so much later


class ContainerEnd:
    """Looks at containers that have ended, and removes them unless they are to be kept, in threads of the caller."""

    def __init__(
        self, client: Client, places: ContainerPlaces, memory: MemoryKills, downloads: Downloads, looks: Looks,
        patiently: EngineRetries, ended: Callable[[TaskContainer, Report], None], keep: bool,
    ) -> None:  # fmt: skip
        self._client, self._places, self._memory, self._downloads = client, places, memory, downloads
        self._looks, self._patiently, self._ended, self._keep = looks, patiently, ended, keep

    def conclude(self, made: TaskContainer) -> None:
        """Find out how a container ended, report it, and remove it."""
        report = self._report(made)
        self._memory.forget(made.name)
        self._ended(made, report)
        self._downloads.look(made.launch)
        with suppress(CannotRun):  # what is left is removed at the end of the job
            if self._keep:
                self._client.state(made.name)  # the answer comes when the engine has let go of its address
                return
            self._look_for_results(made)
            self._patiently(lambda: self._client.remove(made.name))

    def _report(self, made: TaskContainer) -> Report:
        try:
            return reports.read(made.launch) or self._without_report(made)
        except EngineGone:
            return failures.of_lost_engine(made.launch)
        except Exception as error:  # whatever it is, the task must not be waited for for ever
            what = f"it cannot be told how the task's container ended: {error}"
            return reports.of_end(made.launch, RUNTIME_BROKE, what)

    def _look_for_results(self, made: TaskContainer) -> None:
        if made.spec and made.up:
            layer = made.process.layer if made.process else None
            self._looks.look(made.launch.task, made.spec, made.workdir, layer)

    def _without_report(self, made: TaskContainer) -> Report:
        state = self._patiently(lambda: self._client.state(made.name))
        if not made.up:
            self._places.distrust_bundle()
        return failures.of_container(made.launch, state, self._known(made))

    def _known(self, made: TaskContainer) -> KnownFacts:
        kill = self._memory.of(made.name)
        if kill and made.end_seen - kill.at > _LONG_BEFORE_SEC:
            kill = None  # the task has outlived it
        limit = made.spec.memory if made.spec else None
        return KnownFacts(limit, kill, self._memory.watches(made.name), made.up, made.killed)
