"""Starts and follows the containers of a job: one per task attempt."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kedge import processes, untrusted
from kedge.contract import RUNTIME_BROKE, STARTING, Report
from kedge.engines.base import Ended, Started, Task, Update
from kedge.engines.container import container_spec, failures, render
from kedge.engines.container.callbacks import CallbackQueue
from kedge.engines.container.client import Client, EngineGone, RunningContainer
from kedge.engines.container.container_spec import ContainerSpec
from kedge.engines.container.downloads import Downloads
from kedge.engines.container.failures import KnownFacts
from kedge.engines.container.images import Cancelled, Images
from kedge.engines.container.lost_files import Looks
from kedge.engines.container.memory_kills import MemoryKills
from kedge.engines.container.placement import ContainerPlaces
from kedge.engines.container.watcher import Watch
from kedge.engines.controller import reports, supervisor_events
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.states import Emit
from kedge.errors import CannotRun
from kedge.plan.model import Plan
from kedge.runs.atomic_files import disk_errors
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent

T = TypeVar("T")

WORKERS = 4  # measured: more do not start containers any faster
_PATIENCE_SEC = 60.0  # with an engine that does not answer
_PAUSE_SEC = 0.5
_LONG_BEFORE_SEC = 60.0  # a kill in a container is not what ended it so much later


@dataclass(slots=True)
class _Container:
    """A container from the moment it is asked for. `signals` wait until its supervisor can take them."""

    launch: Launch
    name: str
    starting: Future[None] | None = None
    spec: ContainerSpec | None = None
    workdir: str = "/"  # the image's
    process: RunningContainer | None = None
    up: bool = False
    killed: bool = False
    heard: float = 0.0  # when its end was, in time.monotonic()
    burying: Future[None] | None = None
    signals: list[signal.Signals] = field(default_factory=list)


class ContainerBackend:
    """Runs task attempts in containers. Calls of the engine, which take long, are made by threads of two pools; what
    they find out comes back through a queue, so that all decisions are the controller's."""

    def __init__(
        self, plan: Plan, run: Run, client: Client, images: Images, places: ContainerPlaces, emit: Emit, keep: bool,
        restore: Callable[[], None],
    ) -> None:  # fmt: skip
        self._plan, self._run, self._client, self._images, self._places = plan, run, client, images, places
        self._emit, self._keep = emit, keep
        self._containers: dict[Task, _Container] = {}
        self._by_name: dict[str, _Container] = {}
        self._starts = ThreadPoolExecutor(WORKERS, thread_name_prefix="start")
        # Of their own: starts may wait long for an image.
        self._others = ThreadPoolExecutor(WORKERS, thread_name_prefix="engine")
        self._over = threading.Event()
        self._inbox = CallbackQueue()
        self._post = self._inbox.post
        self._updates: list[Update] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._inbox, selectors.EVENT_READ)
        self._gate: int | None = None
        self._status: int | None = None
        self._to_start = 0  # how many containers the gate still waits for
        self._partial = b""
        self._memory, self._looks = MemoryKills(), Looks(client)
        self._downloads = Downloads(plan, places.cache)
        self._watch = Watch(
            client, f"{container_spec.JOB}={run.id}", self._say_ended, lambda why: self.say(f"{why}; trying again"),
            lambda: self.say("the container engine answers again"), lambda: self._post(self._lost), restore,
        )  # fmt: skip
        self._watch.start()

    def say(self, text: str) -> None:
        """Put a line into the job's log, from any thread."""
        self._post(lambda: self._emit(JobEvent.NOTE, text=text))

    def place(self, attempt: int) -> None:
        self._images.resume()
        self._downloads.resume()
        self._places.reserve(attempt)
        self._close_pipes()
        shared = self._places.shared(attempt)
        # Opened for both ends: no end of file while no task has opened it yet.
        self._status = os.open(shared / render.STATUS, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._status, selectors.EVENT_READ)
        if self._plan.gang:
            self._gate = os.open(shared / render.GATE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._to_start = self._plan.task_count

    def start(self, task: Task, attempt: int, task_attempt: int) -> None:
        folder = str(self._run.task(task.role, task.task_index, attempt, task_attempt))
        launch = Launch(task, folder, attempt, task_attempt, time.time_ns())
        made = _Container(launch, render.container_name(self._run.id, task, attempt, task_attempt))
        before = self._containers.get(task)
        self._containers[task] = self._by_name[made.name] = made
        made.starting = self._starts.submit(self._start, made, before.burying if before else None)

    def stop(self, task: Task) -> None:
        self._images.cancel()
        self._downloads.give_up()
        made = self._containers[task]
        if made.starting and made.starting.cancel():
            # Posted, so that the controller wakes up: nothing else may happen any more.
            self._post(lambda: self._end(made, Ended(task, failures.stopped_before_start(made.launch))))
        else:
            self._signal(made, signal.SIGTERM)

    def end_grace(self, task: Task) -> None:
        # The second request, and not by the same signal: one that waits to be taken swallows all others of its kind.
        self._signal(self._containers[task], signal.SIGINT)

    def kill(self, task: Task) -> None:
        made = self._containers[task]
        made.killed = True
        self._others.submit(self._send, made, signal.SIGKILL)

    def fileno(self) -> int:
        return self._selector.fileno()

    def poll(self) -> list[Update]:
        if any(key.fileobj == self._status for key, _ in self._selector.select(0)):
            self._read_status()
        self._inbox.call_all()
        updates, self._updates = self._updates, []
        return updates

    def close(self) -> None:
        self._over.set()
        self._images.cancel()
        self._starts.shutdown(cancel_futures=True)
        for made in self._by_name.values():  # some only after a fault, of which nobody will hear how they end
            self._others.submit(self._send, made, signal.SIGKILL)
        self._by_name.clear()
        self._others.shutdown()
        self._downloads.close()
        self._watch.close()
        self._memory.close()
        self._inbox.close()
        self._places.release()
        self._close_pipes()
        self._selector.close()
        if text := self._looks.note():
            self._emit(JobEvent.NOTE, text=text, in_summary=True)

    # In threads of the pools.

    def _start(self, made: _Container, before: Future[None] | None) -> None:
        """Image, folder, container, once the one of the attempt `before` is gone, which has the same address. Whatever
        goes wrong is the end of this attempt."""
        if before:
            wait([before])
        task, attempt, retry = made.launch.task, made.launch.job_attempt, made.launch.task_attempt
        try:
            image = self._patiently(lambda: self._images.get(self._plan.role(task.role), retry))
            with disk_errors(made.launch.folder):
                wanted = self._places.container(task, attempt, retry, image)
            self._patiently(lambda: self._client.create(wanted))
            self._places.start_holds(task)
            made.spec, made.workdir = wanted, image.workdir
            self._patiently(lambda: self._client.start(made.name), lambda: self._client.start_if_new(made.name))
            self._look_at(made)
        except Cancelled:
            self._fail(made, failures.stopped_before_start(made.launch))
        except Exception as error:  # whatever it is, the task must not be waited for for ever
            self._fail(made, failures.of_problem(made.launch, error))
        self._post(self._started_one)

    def _look_at(self, made: _Container) -> None:
        """Before any command runs, so that nothing is missed."""
        with suppress(CannotRun):  # it is only known less of, then
            made.process = self._client.process(made.name)
            self._memory.watch(made.name, made.process.identity, made.process.pid)

    def _fail(self, made: _Container, report: Any) -> None:
        with suppress(CannotRun):
            self._client.remove(made.name)
        self._post(lambda: self._end(made, Ended(made.launch.task, report)))

    def _bury(self, made: _Container) -> None:
        """Find out how a container ended, and remove it."""
        try:
            report = reports.read(made.launch) or self._without_report(made)
        except EngineGone:
            report = failures.of_lost_engine(made.launch)
        except Exception as error:  # as in _start
            what = f"it cannot be told how the task's container ended: {error}"
            report = reports.of_end(made.launch, RUNTIME_BROKE, what)
        self._memory.forget(made.name)
        self._post(lambda: self._end(made, Ended(made.launch.task, report)))
        self._downloads.look(made.launch)
        with suppress(CannotRun):  # what is left is removed at the end of the job
            if self._keep:
                self._client.state(made.name)  # the answer comes when the engine has let go of its address
                return
            self._look_for_results(made)
            self._patiently(lambda: self._client.remove(made.name))

    def _look_for_results(self, made: _Container) -> None:
        if made.spec and made.up:
            layer = made.process.layer if made.process else None
            self._looks.look(made.launch.task, made.spec, made.workdir, layer)

    def _without_report(self, made: _Container) -> Report:
        state = self._patiently(lambda: self._client.state(made.name))
        if not made.up:
            self._places.distrust_bundle()
        return failures.of_container(made.launch, state, self._known(made))

    def _known(self, made: _Container) -> KnownFacts:
        kill = self._memory.of(made.name)
        if kill and made.heard - kill.at > _LONG_BEFORE_SEC:
            kill = None  # the task has outlived it
        limit = made.spec.memory if made.spec else None
        return KnownFacts(limit, kill, self._memory.watches(made.name), made.up, made.killed)

    def _send(self, made: _Container, number: signal.Signals) -> None:
        """What somebody has paused or suspended goes on first."""
        with suppress(CannotRun):  # one that cannot be reached is killed, or given up, later
            if made.process and processes.is_suspended(made.process.pid):
                self._patiently(lambda: self._client.signal(made.name, signal.SIGCONT))
            if self._patiently(lambda: self._client.signal(made.name, number)):
                self.say(f"the container of {made.launch.task} was paused; it goes on, to be stopped")

    def _patiently(self, call: Callable[[], T], again: Callable[[], T] | None = None) -> T:
        """Call until the engine answers, for a while; `again` from the second time on, if the first may have worked."""
        end = time.monotonic() + _PATIENCE_SEC
        while True:
            try:
                return call()
            except EngineGone:
                if time.monotonic() > end or self._over.wait(_PAUSE_SEC):
                    raise
                call = again or call

    # From any thread.

    def _say_ended(self, name: str) -> None:
        self._post(lambda: self._ended(name))

    # In the controller's thread.

    def _started_one(self) -> None:
        self._to_start -= 1
        if self._to_start == 0:
            self._open_gate()

    def _ended(self, name: str) -> None:
        made = self._by_name.get(name)
        if made and not made.burying:
            made.heard = time.monotonic()
            made.burying = self._others.submit(self._bury, made)

    def _lost(self) -> None:
        for made in list(self._by_name.values()):
            self._end(made, Ended(made.launch.task, failures.of_lost_engine(made.launch)))

    def _end(self, made: _Container, update: Ended) -> None:
        if self._by_name.pop(made.name, None):
            self._updates.append(update)

    def _signal(self, made: _Container, number: signal.Signals) -> None:
        """Now, or as soon as the supervisor takes it: the first process of a container loses what comes before."""
        if made.up:
            self._others.submit(self._send, made, number)
        else:
            made.signals.append(number)

    def _read_status(self) -> None:
        assert self._status is not None
        lines, self._partial = supervisor_events.lines(self._partial + supervisor_events.read(self._status))
        for line in lines:
            with suppress(*supervisor_events.NOT_HEARD):
                self._heard(untrusted.parse(line))

    def _heard(self, event: dict[str, Any]) -> None:
        made = self._containers[supervisor_events.task_of(event)]
        if event["task_attempt"] != made.launch.task_attempt:
            return
        if update := supervisor_events.update(event):
            self._updates.append(update)
            if isinstance(update, Started):
                self._downloads.look(made.launch)
        elif event["event"] == STARTING:
            made.up = True
            for number in made.signals:
                self._signal(made, number)
            made.signals.clear()

    def _open_gate(self) -> None:
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None

    def _close_pipes(self) -> None:
        self._open_gate()
        if self._status is not None:
            self._selector.unregister(self._status)
            os.close(self._status)
            self._status = None
