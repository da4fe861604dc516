"""Where a controller runs in a cluster: an allocation, which holds the tasks, too, and may be replaced by another."""

from __future__ import annotations

from typing import NamedTuple

PREEMPTED, NODE_FAILURE = "preempted", "node_failure"  # causes of diagnose.model.Diagnosis
_EVICTED = -1000  # codes of policy.codes, all of them transient
_CODES = {PREEMPTED: -1003, NODE_FAILURE: -1001}


class Allocation(NamedTuple):
    """One allocation of a run. `number` counts them from 0: how often the cluster has queued the job again
    ($SLURM_RESTART_COUNT). For all but the first, `cause` is why the one before ended, if that is known: PREEMPTED or
    NODE_FAILURE; `text` says it for people, such as `preempted by a job of a higher priority`.
    """

    number: int = 0
    cause: str | None = None
    text: str = ""

    @property
    def code(self) -> int:
        """The completion code of what the end of the allocation before has ended."""
        return _CODES.get(self.cause or "", _EVICTED)

    @property
    def ending(self) -> str:
        """What happened to the tasks of the allocation before."""
        return self.text or "the job was queued again"


FIRST = Allocation()
