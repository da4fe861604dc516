"""The job's verdict: which task failed first for a reason of its own, and everything else folded under it.

Causal role comes first and time second, because clocks of different machines may be off by seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kedge.diagnose.model import GUESS, NONE, STOPPED, SURE, UNKNOWN, Diagnosis

FAILED, STOPPED_STATE, SUCCEEDED = "failed", "stopped", "succeeded"
CLOCK_SLACK = 5.0  # seconds by which clocks may differ

# These can follow from another task's failure: they are a root only if nobody else failed for a reason of its own.
_CONSEQUENCES = {
    "network_transient", "rendezvous_failure", "nccl_network", "nccl_init_error", "nccl_timeout", "remote_worker_lost",
    "sigterm_unattributed", "peer_failure",
}  # fmt: skip
_EFFECTS = {"sigkill_unattributed"}  # who did it is not known
_OWN_REASON, _EFFECT, _CONSEQUENCE = range(3)


class TaskResult(NamedTuple):
    """How one task ended. `task` as in `worker:3`; `state`: failed, stopped, succeeded; `ended` in seconds since 1970.

    `phase`: command, hook or init; the diagnosis is None where nothing was diagnosed.
    """

    task: str
    state: str
    ended: float
    diagnosis: Diagnosis | None = None
    phase: str = "command"


class Fold(NamedTuple):
    """Tasks that failed or stopped after the root, by kind: a cause, or `stopped`."""

    kind: str
    tasks: tuple[str, ...]


class JobVerdict(NamedTuple):
    """The root task with its diagnosis (None: nothing failed, or no failed task has one) and all others."""

    task: str | None
    diagnosis: Diagnosis | None
    others: tuple[Fold, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """{"task", "diagnosis", "others": [{"kind", "count", "tasks"}]}"""
        return {
            "task": self.task,
            "diagnosis": self.diagnosis.to_json() if self.diagnosis else None,
            "others": [
                {"kind": fold.kind, "count": len(fold.tasks), "tasks": list(fold.tasks)} for fold in self.others
            ],
        }

    def summary(self) -> str:
        """`7 other tasks failed after it: nccl_timeout ×6, stopped ×1`; empty if there are none."""
        count = sum(len(fold.tasks) for fold in self.others)
        kinds = ", ".join(f"{fold.kind} ×{len(fold.tasks)}" for fold in self.others)
        return f"{count} other task{'s' * (count != 1)} failed or stopped after it: {kinds}" if count else ""


def verdict(results: Sequence[TaskResult]) -> JobVerdict:
    """The root task and cause of a job from all its tasks."""
    failed = [r for r in results if r.state == FAILED]
    root = _root(failed)
    folds: dict[str, list[str]] = {}
    for result in results:
        if result is not root and result.state != SUCCEEDED:
            folds.setdefault(_kind(result), []).append(result.task)
    ordered = sorted(folds.items(), key=lambda fold: (-len(fold[1]), fold[0]))
    others = tuple(Fold(kind, tuple(tasks)) for kind, tasks in ordered)
    return JobVerdict(root.task if root else None, root.diagnosis if root else None, others)


def repeats(before: Diagnosis, after: Diagnosis) -> bool:
    """Whether two attempts failed in the same way at the same place; an unknown cause never does."""
    if after.cause in (UNKNOWN, NONE, STOPPED) or after.lone_symptom:
        return False
    return (before.cause, before.rule, before.frame) == (after.cause, after.rule, after.frame)


def _root(failed: Sequence[TaskResult]) -> TaskResult | None:
    if not failed:
        return None
    best = min(_role(result) for result in failed)
    group = [result for result in failed if _role(result) == best]
    first = min(result.ended for result in group)
    together = [result for result in group if result.ended <= first + CLOCK_SLACK]
    return min(together, key=lambda r: (not _sure(r), r.ended))


def _role(result: TaskResult) -> int:
    diagnosis = result.diagnosis
    if diagnosis is None or diagnosis.cause in (UNKNOWN, NONE):
        return _OWN_REASON if result.phase != "command" else _EFFECT
    if diagnosis.cause == STOPPED or diagnosis.lone_symptom or diagnosis.cause in _CONSEQUENCES:
        return _CONSEQUENCE
    return _EFFECT if diagnosis.confidence == GUESS or diagnosis.cause in _EFFECTS else _OWN_REASON


def _sure(result: TaskResult) -> bool:
    return result.diagnosis is not None and result.diagnosis.confidence == SURE


def _kind(result: TaskResult) -> str:
    if result.state == STOPPED_STATE or (result.diagnosis and result.diagnosis.cause == STOPPED):
        return "stopped"
    return result.diagnosis.cause if result.diagnosis else UNKNOWN
