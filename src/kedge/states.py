"""What becomes of a job and its tasks."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a job or a task stands, and how an attempt of a job ended. Files and outputs hold these values."""

    WAITING = "waiting"
    LAUNCHED = "launched"  # of a task: its supervisor is starting
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    DAMAGED = "damaged"  # of a job: the controller is gone and its records cannot be read
    LOST = "lost"  # the controller is gone and has not recorded how it ended


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.STOPPED})
WITHOUT_END = frozenset({State.LOST, State.DAMAGED})  # no controller, and tasks may still run
