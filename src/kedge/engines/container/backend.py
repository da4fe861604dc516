"""Starts and follows the containers of a job: one per task attempt."""

from __future__ import annotations

import math
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from kedge import processes
from kedge.contract import STARTING, Report
from kedge.engines.base import Deadline, Ended, Started, Task, Update
from kedge.engines.container.api.client import Client
from kedge.engines.container.api.engine_retries import EngineRetries
from kedge.engines.container.callbacks import CallbackQueue
from kedge.engines.container.container_start import ContainerStart
from kedge.engines.container.downloads import Downloads
from kedge.engines.container.ends import failures
from kedge.engines.container.ends.container_end import ContainerEnd
from kedge.engines.container.ends.lost_files import Looks
from kedge.engines.container.ends.memory_kills import MemoryKills
from kedge.engines.container.images.images import Images
from kedge.engines.container.placement import ContainerPlaces
from kedge.engines.container.rendering import container_spec, render
from kedge.engines.container.start_gate import StartGate
from kedge.engines.container.status_pipe import StatusPipe
from kedge.engines.container.task_container import TaskContainer
from kedge.engines.container.watcher import Watch
from kedge.engines.controller import reports, supervisor_events
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.states import Emit
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

WORKERS = 4  # measured: more do not start containers any faster


class ContainerBackend:
    """Runs task attempts in containers. Threads of two pools make the requests to the engine, which take long. Their
    results come back through a queue, so that only the controller's thread decides. The first `place` starts the
    threads, `close` ends them."""

    def __init__(
        self, plan: Plan, run: Run, client: Client, images: Images, places: ContainerPlaces, emit: Emit, keep: bool,
        restore: Callable[[], None],
    ) -> None:  # fmt: skip
        self._plan, self._run, self._client, self._images, self._places = plan, run, client, images, places
        self._emit = emit
        self._containers: dict[Task, TaskContainer] = {}
        self._by_name: dict[str, TaskContainer] = {}
        self._starts = ThreadPoolExecutor(WORKERS, thread_name_prefix="start")
        # A pool of their own, because starts may wait long for an image.
        self._others = ThreadPoolExecutor(WORKERS, thread_name_prefix="engine")
        self._callbacks = CallbackQueue()
        self._post = self._callbacks.post
        self._updates: list[Update] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._callbacks, selectors.EVENT_READ)
        self._gate, self._status = StartGate(), StatusPipe(self._selector)
        self._memory, self._looks = MemoryKills(), Looks(client)
        self._downloads = Downloads(plan, places.cache)
        self._with_retries = EngineRetries()
        self._starter = ContainerStart(plan, client, images, places, self._memory, self._with_retries, self._report_end)
        self._ender = ContainerEnd(
            client, places, self._memory, self._downloads, self._looks, self._with_retries, self._report_end, keep
        )
        self._watch = Watch(
            client, f"{container_spec.JOB}={run.id}", self._report_container_end,
            lambda why: self.note(f"{why}; trying again"), lambda: self.note("the container engine answers again"),
            lambda: self._post(self._lost), restore,
        )  # fmt: skip
        self._watching = False

    def note(self, text: str) -> None:
        """Add a note to the job's log; from any thread."""
        self._post(lambda: self._emit(JobEvent.NOTE, text=text))

    def place(self, attempt: int) -> None:
        self._start_watching()
        self._images.resume()
        self._downloads.resume()
        self._places.reserve(attempt)
        self._close_pipes()
        shared = self._places.shared(attempt)
        self._status.open(shared)
        if self._plan.gang:
            self._gate.shut(shared, self._plan.task_count)

    def _start_watching(self) -> None:
        if not self._watching:
            self._watching = True
            self._memory.start()
            self._watch.start()

    def adopt(self, attempt: int, running: Mapping[Task, int]) -> None:
        raise AssertionError("tasks on one machine end with their controller")

    def start(self, task: Task, attempt: int, task_attempt: int, deadlines: tuple[Deadline, ...]) -> None:
        folder = str(self._run.task(task.role, task.task_index, attempt, task_attempt))
        launch = Launch(task, folder, attempt, task_attempt, time.time_ns())
        container = TaskContainer(launch, render.container_name(self._run.id, task, attempt, task_attempt), deadlines)
        before = self._containers.get(task)
        self._containers[task] = self._by_name[container.name] = container
        container.starting = self._starts.submit(self._start, container, before.ending if before else None)

    def warn(self, task: Task) -> None:
        self._signal(self._containers[task], signal.SIGPWR)

    def stop(self, task: Task) -> None:
        self._images.cancel()
        self._downloads.give_up()
        container = self._containers[task]
        if container.starting and container.starting.cancel():
            # Posted, so that the controller wakes up: nothing else may wake it.
            self._report_end(container, reports.stopped_before_start(container.launch))
        else:
            self._signal(container, signal.SIGTERM)

    def end_grace(self, task: Task) -> None:
        # The second request needs another signal, since a pending signal absorbs later ones of its kind.
        self._signal(self._containers[task], signal.SIGINT)

    def kill(self, task: Task) -> None:
        container = self._containers[task]
        container.killed = True
        self._others.submit(self._send, container, signal.SIGKILL)

    def fileno(self) -> int:
        return self._selector.fileno()

    due = math.inf

    def poll(self) -> list[Update]:
        for event in self._status.events():
            with suppress(*supervisor_events.MALFORMED):
                self._take_event(event)
        self._callbacks.call_all()
        updates, self._updates = self._updates, []
        return updates

    def close(self) -> None:
        self._with_retries.close()
        self._images.cancel()
        self._starts.shutdown(cancel_futures=True)
        for container in self._by_name.values():  # only after a fault; how they end is not reported
            self._others.submit(self._send, container, signal.SIGKILL)
        self._by_name.clear()
        self._others.shutdown()
        self._downloads.close()
        if self._watching:
            self._watch.close()
        self._memory.close()
        self._callbacks.close()
        self._places.release()
        self._close_pipes()
        self._selector.close()
        if text := self._looks.note():
            self._emit(JobEvent.NOTE, text=text, in_summary=True)

    # In threads of the pools.

    def _start(self, container: TaskContainer, before: Future[None] | None) -> None:
        self._starter.start(container, before)
        self._post(self._gate.count_start)

    def _send(self, container: TaskContainer, number: signal.Signals) -> None:
        """Send a signal. A paused or suspended container is resumed first."""
        with suppress(CannotRun):  # an unreachable one is killed or given up later
            if container.process and processes.is_suspended(container.process.pid):
                self._with_retries(lambda: self._client.signal(container.name, signal.SIGCONT))
            if self._with_retries(lambda: self._client.signal(container.name, number)):
                self.note(f"the container of {container.launch.task} was paused; it was resumed to stop it")

    # From any thread.

    def _report_container_end(self, name: str) -> None:
        self._post(lambda: self._container_ended(name))

    def _report_end(self, container: TaskContainer, report: Report) -> None:
        self._post(lambda: self._end(container, report))

    # In the controller's thread.

    def _container_ended(self, name: str) -> None:
        container = self._by_name.get(name)
        if container and not container.ending:
            container.end_seen = time.monotonic()
            container.ending = self._others.submit(self._ender.conclude, container)

    def _lost(self) -> None:
        for container in list(self._by_name.values()):
            self._end(container, failures.of_lost_engine(container.launch))

    def _end(self, container: TaskContainer, report: Report) -> None:
        if self._by_name.pop(container.name, None):
            self._updates.append(Ended(container.launch.task, report))

    def _signal(self, container: TaskContainer, number: signal.Signals) -> None:
        """Send a signal now, or once the supervisor can receive it: before that, the first process of a container
        ignores signals."""
        if container.up:
            self._others.submit(self._send, container, number)
        else:
            container.signals.append(number)

    def _take_event(self, event: dict[str, Any]) -> None:
        container = self._containers[supervisor_events.task_of(event)]
        if event["task_attempt"] != container.launch.task_attempt:
            return
        if update := supervisor_events.update(event):
            self._updates.append(update)
            if isinstance(update, Started):
                self._downloads.look(container.launch)
        elif event["event"] == STARTING:
            container.up = True
            for number in container.signals:
                self._signal(container, number)
            container.signals.clear()

    def _close_pipes(self) -> None:
        self._gate.open()
        self._status.close()
