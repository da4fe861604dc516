"""What an engine for a cluster adds to the shared backend: it launches agents, and says for sure what has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from kedge.engines.base import Task


class GoneKind(StrEnum):
    """Why nothing of a task runs any more, in the cluster's own words about it."""

    ENDED = "ended"  # its step or container exited, and the cluster knows nothing else
    NODE_LOST = "node-lost"  # its node failed, or was taken out of service
    OUT_OF_MEMORY = "out-of-memory"
    CANCELLED = "cancelled"  # by a person or a program, and not by this controller
    PREEMPTED = "preemption"
    OUT_OF_TIME = "out-of-time"  # the cluster's own, not one of the job file
    NOT_STARTED = "not-started"  # the cluster could not start the agent


class Gone(NamedTuple):
    """The cluster confirms that no process of a task is left in this job attempt.

    `text` is what it said, for people: the node, the state, who cancelled. It may be empty. `code` is the exit code of
    the agent's step (-n for signal n) if the cluster knows it.
    """

    task: Task
    attempt: int
    reason: GoneKind
    text: str = ""
    code: int | None = None


class Cluster(Protocol):
    """What the backend needs of one kind of cluster. Nothing of it blocks for longer than a command's start."""

    def launch(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        """Start one agent for every task of a job attempt; `tokens` holds one for each index of every role. Returns at
        once. CannotRun: the cluster refuses. What fails later is reported by `poll`."""
        ...

    def adopt(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        """Instead of `launch`, after a restart of the controller: find what an earlier controller launched. What is not
        there any more is reported by `poll`; roles that it never came to launch are launched now. CannotRun."""
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
        """The tasks that have gone since the last call; each task of a job attempt once. Never blocks."""
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
