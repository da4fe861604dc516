"""How long a job on a cluster waits for what."""

from __future__ import annotations

from typing import NamedTuple

OWN_PAUSE_SEC = 5.0  # after so much more than was planned, this process has been suspended, or blocked by a disk


class ClusterSettings(NamedTuple):
    """Times in seconds: `barrier_sec` for all tasks to be ready, and `barrier_note_sec` until a note says which are
    not; `unreachable_sec` without a message until a task counts as unreachable; `report_sec` for a report after the
    cluster has said that its task is gone; `kill_sec` for an agent to kill its task before the cluster does;
    `finish_sec` for agents to clean up at the end; `flush_sec` for an agent that was told to kill its task to send what
    the task has left; `word_sec` for the cluster to say why a task ended that has left no report, or was stopped by
    nobody known, where each task attempt has an agent of its own.

    `shares_folder`: the nodes have the run folder. If not, the orders of agents must say so as well."""

    barrier_sec: float = 600.0
    barrier_note_sec: float = 60.0
    unreachable_sec: float = 120.0
    report_sec: float = 10.0
    kill_sec: float = 10.0
    finish_sec: float = 10.0
    flush_sec: float = 300.0
    word_sec: float = 10.0
    shares_folder: bool = True
