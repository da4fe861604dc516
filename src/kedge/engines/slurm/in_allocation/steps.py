"""The tasks of a job as steps of its allocation: one srun for each role and job attempt."""

from __future__ import annotations

import math
import resource
import select
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kedge.contract import timestamp
from kedge.engines.base import Task, TaskAttempt
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.slurm.in_allocation import step_process, step_record
from kedge.engines.slurm.in_allocation.node_question import NodeFacts
from kedge.engines.slurm.in_allocation.step_ends import of_exit, of_node, of_step
from kedge.engines.slurm.in_allocation.step_process import SlurmStep
from kedge.engines.slurm.in_allocation.step_record import StepProcess
from kedge.plan.model import Plan
from kedge.runs.cluster_files import ClusterFiles

_LOOK_SEC = 1.0  # between looks at the logs of running steps: changes on a shared file system cause no event
_LEAVE_SEC = 3.0  # for an srun whose agents have finished
_PATIENCE_SEC = 10.0  # between cancelling a step and killing its srun, with which its tasks end
_CLOSE_SEC = 20.0

# The srun of a role in a job attempt, which uses none of these nodes.
StepLine = Callable[[int, str, Collection[str]], tuple[str, ...]]
Orders = Callable[[int, str, Sequence[str]], bytes]  # what its tasks read, with their tokens


class StepEnding(NamedTuple):
    """How steps end before their time. Nothing of it waits.

    `cancel` ends the step of that id. `end_tasks` ends some tasks of one: the job attempt, the role, the id, and the
    node of each task. `say` shows a note to the user.
    """

    cancel: Callable[[str], None]
    end_tasks: Callable[[int, str, str, Mapping[int, str]], None]
    say: Callable[[str], None]


class SlurmSteps:
    """`lost_nodes` are those that the allocation had, or that are of no use to it any more; `restarted_nodes` those of
    them that it still has. `open_files` is the soft limit of steps, which Slurm gives to their tasks, if it is not this
    process's."""

    relaunches = False

    def __init__(self, plan: Plan, files: ClusterFiles, line: StepLine, orders: Orders, ending: StepEnding) -> None:
        self._plan, self._files, self._line, self._orders, self._ending = plan, files, line, orders, ending
        self._steps: list[SlurmStep] = []
        self._tokens: Mapping[str, Sequence[str]] = {}  # of the job attempt that was adopted
        self._told: dict[SlurmStep, set[int]] = {}  # the tasks that `poll` has returned
        self._cancel_at: dict[SlurmStep, float] = {}
        self._kill_at: dict[SlurmStep, float] = {}
        self._doomed: dict[SlurmStep, set[int]] = {}  # the tasks that `kill` was called for since the last `poll`
        self._tried: dict[SlurmStep, set[int]] = {}  # and those before
        self.lost_nodes: set[str] = set()
        self.open_files: int | None = None
        self._past: set[tuple[GoneKind, str]] = set()  # causes of steps that have ended
        self.restarted_nodes: set[str] = set()
        self._known: set[tuple[GoneKind, str]] = set()
        self._look_at = math.inf
        self._epoll = select.epoll()

    def launch(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        for role in tokens:
            self._launch(attempt, role, tokens[role])

    def _launch(self, attempt: int, role: str, tokens: Sequence[str]) -> None:
        log = step_process.log_path(self._files.folder, attempt, role)
        orders = self._orders(attempt, role, tokens)
        line = self._line(attempt, role, self.restarted_nodes)
        self._add(step_process.start(line, orders, log, attempt, role, self._record))

    def _record(self, step: StepProcess) -> None:
        step_record.add(self._files.steps, step)
        if self.open_files is not None:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            with suppress(ProcessLookupError):
                resource.prlimit(step.process.pid, resource.RLIMIT_NOFILE, (self.open_files, hard))

    def adopt(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        self._tokens = tokens
        for record in step_record.read(self._files.steps, attempt).values():
            log = step_process.log_path(self._files.folder, attempt, record.role)
            self._add(SlurmStep(record, log, own=False))
        known = {step.role for step in self._steps}
        for role in tokens.keys() - known:  # the controller was killed before it had started all
            self._launch(attempt, role, tokens[role])

    def relaunch(self, task: Task, attempt: int, task_attempt: int, token: str) -> None:
        raise NotImplementedError  # the agents of a step serve all attempts of their tasks

    def supervisor_ended(self, attempt: TaskAttempt) -> None:
        raise NotImplementedError  # the same

    def _add(self, step: SlurmStep) -> None:
        self._steps.append(step)
        if step.runs:
            self._epoll.register(step.fd, select.EPOLLIN)
        self._look_at = 0.0

    def whereabouts(self, task: Task) -> str:
        for step in self._steps:
            if step.role == task.role:
                node = step.facts.nodes.get(task.task_index)
                said = f"srun reports: {step.facts.why}" if step.facts.why else ""
                where = f"started on node {node}" if node else "srun has not started it"
                log = step_process.log_path(self._files.folder, step.attempt, step.role)
                return "; ".join(filter(None, (where, said, f"see {log}")))
        return ""

    def fileno(self) -> int:
        return self._epoll.fileno()

    @property
    def due(self) -> float:
        return 0.0 if self._doomed else min([self._look_at, *self._cancel_at.values(), *self._kill_at.values()])

    def look(self) -> None:
        """Read at once what is new in the logs."""
        for step in self._steps:
            step.look()

    def causes(self) -> set[tuple[GoneKind, str]]:
        """Why Slurm ends steps that kedge did not end: the kinds, and Slurm's messages."""
        return {cause for step in self._steps for cause in self._causes_of(step)} | (self._past - self._known)

    def _causes_of(self, step: SlurmStep) -> set[tuple[GoneKind, str]]:
        facts, asked = step.facts, step in self._kill_at or step in self._cancel_at
        return {(facts.cause, facts.cause_text)} - self._known if facts.cause and not asked else set()

    def forget_causes(self) -> None:
        """What `causes` has returned is known."""
        self._known |= self.causes()

    def node_of(self, task: Task) -> str:
        """The node of a task; empty before its srun has reported it."""
        found = (step.facts.nodes.get(task.task_index) for step in self._steps if step.role == task.role)
        return next(filter(None, found), "")

    def told(self, nodes: Mapping[str, NodeFacts]) -> None:
        """Slurm's facts about these nodes. What ran on a node that is down, or was rebooted, is gone."""
        for step in self._steps:
            for name in {*step.facts.nodes.values()} & nodes.keys():
                facts = nodes[name]
                if facts.is_down:
                    step.facts.failed_nodes.setdefault(name, "Slurm has marked the node as failed")
                elif facts.booted + 1 > step.started:  # Slurm reports whole seconds, rounded down
                    when = timestamp(int(facts.booted) * 10**9)
                    step.facts.failed_nodes.setdefault(name, f"the node was rebooted at {when}")
                    # Slurm takes the node for good again, but does not free what the step had there.
                    self.restarted_nodes.add(name)
        self._look_at = 0.0

    @property
    def running(self) -> list[SlurmStep]:
        """The steps whose srun runs."""
        return [step for step in self._steps if step.runs]

    def poll(self) -> list[Gone]:
        ready = {fd for fd, _ in self._epoll.poll(0)}
        now = time.monotonic()
        found = []
        self._end_doomed()
        for step in list(self._steps):
            if step.fd in ready:
                self._epoll.unregister(step.fd)
                step.ended()
            elif self._look_at <= now:
                step.look()
            if step.never_began and step not in self._cancel_at and step not in self._kill_at:
                self._forget(step)
                self._launch(step.attempt, step.role, self._tokens[step.role])
                continue
            if not step.runs or self._look_at <= now:
                found += self._gone(step)
            self.lost_nodes |= step.facts.failed_nodes.keys()
            if not step.runs:
                self._past |= self._causes_of(step)
                self._forget(step)
        if self._look_at <= now:
            self._look_at = now + _LOOK_SEC if self._steps else math.inf
        self._end_late(now)
        return found

    def _forget(self, step: SlurmStep) -> None:
        """It has ended. A job may have many attempts."""
        self._steps.remove(step)
        self._told.pop(step, None)
        self._tried.pop(step, None)
        self._cancel_at.pop(step, None)
        self._kill_at.pop(step, None)

    def _gone(self, step: SlurmStep) -> list[Gone]:
        """The tasks of a step that are known to have gone since the last time."""
        told = self._told.setdefault(step, set())
        left = [Task(step.role, index) for index in range(self._plan.role(step.role).instances) if index not in told]
        found = [gone for task in left if (gone := _gone(step, task))]
        told.update(gone.task.task_index for gone in found)
        return found

    def _end_late(self, now: float) -> None:
        for step in [step for step, when in self._cancel_at.items() if when <= now]:
            self._end_step(step)
        for step in [step for step, when in self._kill_at.items() if when <= now]:
            step.signal(signal.SIGKILL)
            del self._kill_at[step]

    def kill(self, task: Task) -> None:
        for step in self.running:
            if step.role == task.role:
                self._doomed.setdefault(step, set()).add(task.task_index)

    def _end_doomed(self) -> None:
        """End the tasks that `kill` was called for. Slurm has no command for a single task: a small step does it on its
        node. If that was tried before, or if they are all tasks of their step, that ends as a whole."""
        doomed, self._doomed = self._doomed, {}
        for step, tasks in doomed.items():
            step.look()
            left = {*range(self._plan.role(step.role).instances)} - step.facts.exits.keys()
            tasks &= left
            tried = self._tried.setdefault(step, set())
            places = {index: step.facts.nodes[index] for index in tasks if index in step.facts.nodes}
            if tasks == left or len(places) < len(tasks) or tasks & tried:
                if tasks != left:
                    names = ", ".join(f"{step.role}:{index}" for index in sorted(tasks))
                    self._ending.say(f"{names} could not be killed alone, so all tasks of {step.role} are killed")
                self._end_step(step)
            elif tasks:
                self._ending.end_tasks(step.attempt, step.role, step.facts.id, places)
            tried |= tasks

    def end(self, attempt: int) -> None:
        for step in self.running:
            if step.attempt == attempt and step not in self._kill_at:
                self._cancel_at.setdefault(step, time.monotonic() + _LEAVE_SEC)

    def _end_step(self, step: SlurmStep) -> None:
        self._cancel_at.pop(step, None)
        if step not in self._kill_at:
            step.look()
            self._kill_at[step] = time.monotonic() + _PATIENCE_SEC
            if step.facts.id:
                self._ending.cancel(step.facts.id)
            else:  # it waits for resources
                step.signal(signal.SIGTERM)

    def close(self) -> None:
        for step in self.running:
            self.end(step.attempt)
        end = time.monotonic() + _CLOSE_SEC
        while self._steps and (left := end - time.monotonic()) > 0:
            with suppress(InterruptedError):
                self._epoll.poll(min(left, max(0.0, self.due - time.monotonic())))
            self.poll()
        for step in self.running:
            step.signal(signal.SIGKILL)
        self._epoll.close()


def _gone(step: SlurmStep, task: Task) -> Gone | None:
    """The task's end, if the step's srun has reported it, or has itself ended."""
    facts = step.facts
    if found := facts.exits.get(task.task_index):
        return of_exit(step, task, found)
    if (node := facts.nodes.get(task.task_index)) in facts.failed_nodes:
        return of_node(step, task, facts.failed_nodes[node])
    return None if step.runs else of_step(step, task)
