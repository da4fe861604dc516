"""What an engine for a cluster adds to the shared backend: it launches agents, and reports which tasks have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from kedge.engines.base import Task, TaskAttempt


class GoneKind(StrEnum):
    """Why nothing of a task runs any more, as the cluster reports it."""

    ENDED = "ended"  # its step or container exited, and the cluster knows nothing else
    NODE_LOST = "node-lost"  # its node failed, or was taken out of service
    OUT_OF_MEMORY = "out-of-memory"
    CANCELLED = "cancelled"  # by a person or a program, and not by this controller
    PREEMPTED = "preemption"
    OUT_OF_TIME = "out-of-time"  # the cluster's own, not one of the job file
    NOT_STARTED = "not-started"  # the cluster could not start the agent
    EVICTED = "eviction"  # its node was drained or shut down, or ran short of something
    DELETED = "deletion"  # its pod was, and not by this controller


class EndKind(NamedTuple):
    """What an end from outside means: the container's code, the reason of the Report, kedge's cause, and the sentence
    that the cluster's own text is added to. `remedy` replaces that of the cause."""

    code: int
    reason: str
    cause: str
    sentence: str
    remedy: tuple[str, ...] = ()


class Gone(NamedTuple):
    """The cluster confirms that no process of a task is left in this job attempt.

    `text` is what it said, for people: the node, the state, who cancelled. It may be empty. `code` is the exit code of
    the agent's step, or of the task's container (-n for signal n), if the cluster knows it. `task_attempt` is the one
    that has gone where each has an agent of its own; None is whatever runs of the task. `kind` is set where the cluster
    knows more than `reason` tells.
    """

    task: Task
    attempt: int
    reason: GoneKind
    text: str = ""
    code: int | None = None
    task_attempt: int | None = None
    kind: EndKind | None = None


class Cluster(Protocol):
    """What the backend needs of one kind of cluster. Nothing of it blocks for longer than a command's start.

    `relaunches`: each attempt of a task has an agent of its own, in a place of its own (a pod). If not, the agent of a
    task serves all its attempts in one job attempt.
    """

    relaunches: bool

    def launch(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        """Start one agent for every task of a job attempt; `tokens` holds one for each index of every role. Returns at
        once. CannotRun: the cluster refuses. What fails later is reported by `poll`."""
        ...

    def adopt(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        """Instead of `launch`, after a restart of the controller: find what an earlier controller launched. What is not
        there any more is reported by `poll`; roles that it never came to launch are launched now. CannotRun.

        Where it `relaunches`, `tokens` are those of first attempts, and nothing is launched here: `relaunch` is called
        for each task that has not ended, with the attempt that the earlier controller may have launched."""
        ...

    def relaunch(self, task: Task, attempt: int, task_attempt: int, token: str) -> None:
        """See to it that there is one agent for an attempt of a task, which knows this `token`. Never called unless the
        cluster `relaunches`. If an earlier controller has launched it, nothing is launched: what has gone meanwhile is
        reported by `poll`. Agents of earlier attempts of the task were told to finish; what is left of them is
        ended, and the new one starts when it has gone. Returns at once; what fails is reported by `poll`."""
        ...

    def supervisor_ended(self, attempt: TaskAttempt) -> None:
        """The agent of a task attempt says that its supervisor has ended, and waits until that is recorded. `poll` may
        say more of it, for a while, than it says of a task that runs. Never called unless the cluster `relaunches`."""
        ...

    def whereabouts(self, task: Task) -> str:
        """What is known about the place of a task's agent that has not reported, for an error message: its node, where
        its messages are. Empty if nothing is."""
        ...

    def fileno(self) -> int:
        """A descriptor that becomes readable when `poll` has something to say. It may be that of an epoll object."""
        ...

    @property
    def due(self) -> float:
        """When `poll` must be called even if `fileno` is not readable, by time.monotonic(); infinite if never."""
        ...

    def poll(self) -> list[Gone]:
        """The tasks that have gone since the last call; each task of a job attempt once, or each task attempt where the
        cluster `relaunches`. Never blocks."""
        ...

    def kill(self, task: Task) -> None:
        """End all processes of the task by the cluster's own means, because its agent does not. `poll` then says that
        it is gone. It may end more than the task where the cluster has nothing finer, never less."""
        ...

    def end(self, attempt: int) -> None:
        """Everything of a job attempt ends now; its agents were asked to finish. Returns at once."""
        ...

    def close(self) -> None:
        """End what is left of all attempts, and release everything."""
        ...
