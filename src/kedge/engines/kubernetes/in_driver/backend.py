"""The backend of a job in its driver pod: nothing is done before what was decided is in the decision log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from kedge.contract import Report
from kedge.engines.base import Deadline, HeldInQueue, Task, Update
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.member import Member
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.kubernetes.in_driver.decision_log import DecisionLog
from kedge.engines.kubernetes.in_driver.pod_queue import PodQueue
from kedge.engines.kubernetes.in_driver.requests import AnchorWatch
from kedge.runs.job_events import JobEvent
from kedge.untrusted import read_json

# Between two writes of the decision log while much is decided, so that a thousand starts are few writes.
_BATCH_SEC = 0.05
_RECORDED_SEC = 300.0
_LARGEST_REPORT = 64 << 10  # bytes in the decision log


class KubernetesBackend(ClusterBackend):
    """What the controller's loop asks for is done by the next `poll`, after the decision log was written."""

    def __init__(self, *parts: Any, decisions: DecisionLog, anchor: AnchorWatch, stops: Stops, queue: PodQueue) -> None:
        super().__init__(*parts)
        self._queue = queue
        self._decisions, self._anchor, self._stops = decisions, anchor, stops
        self._deferred: list[Callable[[], None]] = []
        self._written = 0.0
        self._held_since: float | None = None  # by time.monotonic(): when it was last seen that all tasks are held
        self._stood_sec = 0.0  # not recorded yet
        self._selector.register(anchor, 1)  # EVENT_READ
        self.heartbeat.before = decisions.check

    # What the controller's loop calls.

    def place(self, attempt: int) -> None:
        self._deferred.clear()
        self._write()
        super().place(attempt)

    def adopt(self, attempt: int, running: Mapping[Task, int]) -> None:
        self._write()
        super().adopt(attempt, running)

    def start(self, task: Task, attempt: int, task_attempt: int, deadlines: tuple[Deadline, ...]) -> None:
        self._later(lambda: super(KubernetesBackend, self).start(task, attempt, task_attempt, deadlines))

    def warn(self, task: Task) -> None:
        self._later(lambda: super(KubernetesBackend, self).warn(task))

    def stop(self, task: Task) -> None:
        self._later(lambda: super(KubernetesBackend, self).stop(task))

    def end_grace(self, task: Task) -> None:
        self._later(lambda: super(KubernetesBackend, self).end_grace(task))

    def kill(self, task: Task) -> None:
        self._later(lambda: super(KubernetesBackend, self).kill(task))

    def _later(self, act: Callable[[], None]) -> None:
        self._deferred.append(act)

    @property
    def due(self) -> float:
        if self._decisions.pending:
            return self._written + _BATCH_SEC
        return 0.0 if self._deferred else super().due

    def poll(self) -> list[Update]:
        if self._decisions.pending and time.monotonic() < self._written + _BATCH_SEC:
            return []
        self._write()
        deferred, self._deferred = self._deferred, []
        for act in deferred:
            act()
        self._take_requests()
        self._wait_for_queue()
        return super().poll()

    def _wait_for_queue(self) -> None:
        """The time of tasks to come together begins when their queue lets the first of them go. Until then no time
        limit counts, either."""
        now, held_since = time.monotonic(), self._held_since
        self._held_since = now if self._queue.holds_all else None
        if held_since is not None:
            self._stand_still(now - held_since)
        if self._queue.holds_all:
            self._gate.put_off(now)
        for task in self._queue.held:
            self._members[task].place_by = now + self._settings.barrier_sec

    def _stand_still(self, seconds: float) -> None:
        self._stood_sec += seconds
        self._updates.append(HeldInQueue(next(iter(self._members)), seconds))
        for member in self._members.values():
            member.deadlines = tuple(
                each if each.end is None else each._replace(end=each.end + seconds) for each in member.deadlines
            )
        if self._held_since is None or self._stood_sec >= _RECORDED_SEC:  # a next driver must know most of it
            self._emit(JobEvent.TIME_STOOD_STILL, waited_sec=round(self._stood_sec, 3))
            self._stood_sec = 0.0

    def retrying(self) -> None:
        """The job is tried again, which is recorded: until then it holds nothing of the cluster."""
        self._finish_attempt()

    def close(self) -> None:
        super().close()
        self._anchor.stop()

    def _finish_attempt(self) -> None:
        self._deferred.clear()
        self._write()
        super()._finish_attempt()

    def _write(self) -> None:
        self._decisions.flush()
        self._written = time.monotonic()

    def _take_requests(self) -> None:
        for request in self._anchor.requests():
            if self._decisions.takes(request.id):
                self._stops.take(request.kind, "" if request.by == self._plan.user else request.by)

    # What is recorded besides events.

    def _end(self, member: Member, report: Report, place_lost: bool = False) -> None:
        if member.launch and report.exit_code != 0:
            self._keep_report(member.launch)
        super()._end(member, report, place_lost)

    def _keep_report(self, launch: Launch) -> None:
        """A second driver judges the failure by it, too."""
        path = self._run.task(*launch.task, launch.job_attempt, launch.task_attempt) / "report.json"
        with suppress(OSError, ValueError):
            self._decisions.keep(
                str(path.relative_to(self._run.path)), read_json(path.parent, path.name, _LARGEST_REPORT)
            )
