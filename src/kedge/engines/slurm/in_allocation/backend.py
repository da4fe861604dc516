"""The backend of a job in a Slurm allocation. It also finds out when and why the allocation ends."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NoReturn

from kedge.contract import NOT_RENEWED, TaskTimeLimit
from kedge.engines.base import Ended, LimitReached, Task, TaskReachable, TaskUnreachable, Update
from kedge.engines.cluster import task_ends
from kedge.engines.cluster.backend import ClusterBackend
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.slurm import commands
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.in_allocation import ends
from kedge.engines.slurm.in_allocation.allocation import AllocationTime, SlurmAllocation
from kedge.engines.slurm.in_allocation.ends import AllocationEnd
from kedge.engines.slurm.in_allocation.node_question import NodeQuestion
from kedge.engines.slurm.in_allocation.steps import SlurmSteps
from kedge.errors import CannotRun
from kedge.runs.job_events import JobEvent

_NODES_SEC = 20.0  # between questions about the nodes of unreachable tasks
_ANSWER_SEC = 0.5
# How long to wait for srun to report why a task ended: if the task seems to have failed by itself, and if it got a
# signal. And how often the logs are read meanwhile.
_WORDS_SEC, _SIGNAL_SEC, _LOG_SEC = 1.0, 3.0, 0.1
_ASK = "ask the site's administrator to allow that, or ask for more time with --slurm time=TIME"
_ADVICE = "with --slurm requeue=true, Slurm gives the job another allocation where the site allows that"
# How an allocation may end that Slurm takes away: in the words of the kind, or in these.
_ENDS_OF_ALL = {
    GoneKind.PREEMPTED: None,
    GoneKind.NODE_LOST: task_ends.KINDS[GoneKind.NODE_LOST]._replace(
        sentence="Slurm has ended the job because a node of it has failed"
    ),
}
_TERM_CODES = frozenset({128 + signal.SIGTERM, -signal.SIGTERM})


class SlurmBackend(ClusterBackend):
    """`leave` ends this process without an end of the job, which Slurm gives another allocation.

    `time` is what the allocation has for tasks, None without an end: then the job asks for another allocation, if it
    may, and otherwise `time_is_over`. `shortage` returns what another attempt lacks without the lost nodes."""

    def __init__(
        self, *parts: Any, steps: SlurmSteps, stops: Stops, site: SlurmSite, here: SlurmAllocation,
        leave: Callable[[AllocationEnd], NoReturn],
    ) -> None:  # fmt: skip
        super().__init__(*parts)
        self._steps, self._stops, self._site, self._here, self._leave = steps, stops, site, here, leave
        self.time: AllocationTime | None = None
        self.may_requeue = False
        self._refused = ""
        self._began = time.monotonic()
        self.time_is_over: Callable[[TaskTimeLimit], None] = lambda limit: None
        self.shortage: Callable[[Collection[str]], str] = lambda lost: ""
        self._counted: frozenset[str] = frozenset()
        self._shortage = ""
        self._terminated, self._suspected = False, math.inf
        self._ending: AllocationEnd | None = None
        self._late: list[Update] = []
        self._away: set[Task] = set()
        self._question: NodeQuestion | None = None
        self._ask_at = math.inf
        signal.signal(signal.SIGTERM, self._on_term)

    def _on_term(self, number: int, frame: object) -> None:
        """Slurm sends it when it ends the job, and the batch script forwards what it gets: `poll` asks which it was."""
        self._terminated = True

    @property
    def due(self) -> float:
        if self._suspected < math.inf:
            return min(super().due, time.monotonic() + _LOG_SEC)
        return 0.0 if self._late or self._terminated else min(super().due, self._ask_at, self._time_due)

    @property
    def _time_due(self) -> float:
        return self.time.due if self.time and self._has_time else math.inf

    @property
    def _has_time(self) -> bool:
        """Whether nothing is known that ends the allocation, or the job."""
        return self._ending is None and not self._stops.count

    def warn(self, task: Task) -> None:
        if self.time:
            self.time.look()  # Slurm warns if its limit was shortened, too
        super().warn(task)

    def place(self, attempt: int) -> None:
        if why := self._unusable:
            raise CannotRun(f"the job cannot be tried again: {why}; {self._refused or _ADVICE}")
        super().place(attempt)

    def no_place(self) -> str:
        """Why the job certainly cannot be tried again: its allocation is unusable, and it may not ask for another."""
        return "" if self.may_requeue or not self._unusable else f"{self._unusable}; {self._refused or _ADVICE}"

    @property
    def _unusable(self) -> str:
        """Why no attempt can run in this allocation any more."""
        if self._ending:
            return f"its allocation is over ({self._ending.text})"
        lost = frozenset(self._steps.lost_nodes)
        if lost and lost != self._counted:
            self._counted, self._shortage = lost, self.shortage(lost)
        names = ", ".join(sorted(lost))
        return f"its allocation has lost {names}, and {self._shortage}" if lost and self._shortage else ""

    def retrying(self) -> None:
        """A retry of the job was recorded. If the allocation cannot hold it, ask for another one."""
        if self._unusable and self.may_requeue:
            self._ask_for_another(self._unusable)

    def poll(self) -> list[Update]:
        late, self._late = self._late, []
        updates = [self._explained(update) for update in (*late, *super().poll())]
        if (self._ending is None or self._ending.grace) and self._is_suspicious(updates):
            if self._may_learn_more(updates):
                self._late = updates
                return []
            if self._find_out():
                self._late = updates  # report the stop before its effects
                return self._at_time_limit(updates)
        self._watch_nodes(updates)
        if self.time and self._has_time and self.time.is_over():
            updates += self._at_end_of_time()
        return updates

    def _explained(self, update: Update) -> Update:
        """The report of a task that Slurm ended with the whole allocation, which did not fail by itself: after scancel,
        to make room for another job, or because the only node of a component of the job failed."""
        if self._ending is None or not isinstance(update, Ended):
            return update
        if self._ending.kind == GoneKind.CANCELLED and _may_be_from_outside(update):
            return update._replace(report=update.report._replace(stopped_by=update.report.stopped_by or "TERM"))
        if self._ending.kind not in _ENDS_OF_ALL or not _has_failed(update):
            return update
        report, kind = update.report, _ENDS_OF_ALL[self._ending.kind]
        if kind and report.exit_code == kind.code:
            return update  # its own node, of which more is known
        started = time.time_ns() - int(1e9 * report.duration_sec)
        launch = Launch(update.task, "", report.job_attempt, report.task_attempt, started)
        gone = Gone(update.task, report.job_attempt, self._ending.kind, self._ending.text, kind=kind)
        node = ", ".join(sorted(self._steps.lost_nodes)) if kind else self._members[update.task].node
        return update._replace(report=task_ends.of_gone(launch, gone, node, stopping=False, killed=False))

    def _at_end_of_time(self) -> list[Update]:
        """The time of the allocation is over. If Slurm gives the job no other allocation, the run ends."""
        text = "the time of the allocation is over"
        if self.may_requeue:
            self._ask_for_another(text)
        self._ending = AllocationEnd(GoneKind.OUT_OF_TIME, text)
        return self._at_time_limit(())

    def _ask_for_another(self, text: str) -> None:
        """Ask for another allocation, and leave; returns if Slurm refuses."""
        self._emit(JobEvent.ALLOCATION_REQUESTED, text=f"{text}: the job continues in another one")
        try:
            commands.run(self._site, "scontrol", "requeue", self._here.job)
        except SlurmError as error:
            self.may_requeue = False
            self._refused = f"Slurm has refused to requeue the job ({error}): {_ASK}"
            self._emit(JobEvent.NOTE, text=self._refused)
        else:
            self._leave(AllocationEnd(GoneKind.OUT_OF_TIME, text, requeued=True))

    def _is_suspicious(self, updates: Collection[Update]) -> bool:
        """Whether the allocation may be ending."""
        if self._terminated or self._steps.causes():
            return True
        if self._ending is not None or self._stops.count:
            return False
        return any(_has_failed(update) and not self._was_stopped(update) for update in updates)

    def _was_stopped(self, update: Update) -> bool:
        """Whether kedge has stopped this task, as it does once another one has failed: Slurm has no part in its end."""
        member = self._members[update.task]
        return member.stopping or member.killed

    def _may_learn_more(self, updates: Collection[Update]) -> bool:
        """Whether srun may still report why its step ends: signals arrive before messages, and a command that gets the
        signal may exit with any code."""
        self._suspected = min(self._suspected, time.monotonic())
        self._steps.look()
        signalled = self._terminated or any(_may_be_from_outside(update) for update in updates)
        patience = _SIGNAL_SEC if signalled else _WORDS_SEC
        return not self._steps.causes() and time.monotonic() < self._suspected + patience

    def _find_out(self) -> bool:
        """Ask, and act on the answer. Returns whether the allocation ends."""
        self._suspected = math.inf
        terminated, self._terminated = self._terminated, False
        if not terminated and not self._steps.causes():
            return False
        end = ends.find_out(self._site, self._here, self._steps.causes())
        self._steps.forget_causes()
        if terminated and (end is None or end.grace):
            self._stops.take("stop")
        if end is None:
            return False
        if self._ending and end.kind == GoneKind.CANCELLED:
            end = end._replace(kind=self._ending.kind, text=self._ending.text)  # the end that was announced
        self._ending = end
        if end.requeued:
            self._leave(end)
        if end.kind == GoneKind.CANCELLED:
            by = f"{end.by}, with scancel" if end.by else "scancel, from outside of kedge"
            self._stops.request(by)
        return True

    def _at_time_limit(self, updates: Collection[Update]) -> list[Update]:
        if self._ending and self._ending.kind == GoneKind.OUT_OF_TIME and self.time:
            # Slurm's limit may have been changed meanwhile, so what has passed counts.
            passed = min(self.time.limit.limit_sec, round(time.monotonic() - self._began, 1))
            limit = TaskTimeLimit(NOT_RENEWED if self._refused else self.time.limit.key, passed)
            self.time_is_over(limit)
            task = next((update.task for update in updates), None) or next(iter(self._members))
            return [LimitReached(task, limit.key)]
        return []

    def _node_of(self, task: Task) -> str:
        return self._members[task].node or self._steps.node_of(task)

    def _watch_nodes(self, updates: Collection[Update]) -> None:
        """While tasks are unreachable, ask Slurm about their nodes now and then."""
        for update in updates:
            if isinstance(update, TaskUnreachable):
                self._away.add(update.task)
                self._ask_at = min(self._ask_at, time.monotonic())
            elif isinstance(update, TaskReachable | Ended):
                self._away.discard(update.task)
        if self._ask_at > time.monotonic():
            return
        if self._question and (said := self._question.answer()) is not None:
            self._question = None
            self._steps.told(said)
        elif not self._question and (nodes := {self._node_of(task) for task in self._away} - {""}):
            with suppress(OSError):
                self._question = NodeQuestion(self._site, nodes)
        wait = _ANSWER_SEC if self._question else _NODES_SEC if self._away else math.inf
        self._ask_at = time.monotonic() + wait


def _has_failed(update: Update) -> bool:
    return isinstance(update, Ended) and (update.report.exit_code != 0 or update.report.stopped_by is not None)


def _may_be_from_outside(update: Update) -> bool:
    return isinstance(update, Ended) and (
        update.report.stopped_by is not None
        or update.report.exit_code in _TERM_CODES
        or update.report.user_exit_code in _TERM_CODES
    )
