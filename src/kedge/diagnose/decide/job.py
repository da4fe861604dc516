"""The job's verdict: which task failed first for a reason of its own, with all other tasks grouped under it.

The causal role decides before the time does, because the clocks of machines may differ by seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kedge.diagnose.model import GUESS, NONE, STOPPED, SURE, UNKNOWN, Diagnosis
from kedge.states import State

MAX_SUSPECTS = 8
CLOCK_SLACK = 5.0  # seconds by which clocks may differ

# Causes that can follow from another task's failure: a root only if no other task failed for a reason of its own.
_CONSEQUENCES = {
    "network_transient", "rendezvous_failure", "nccl_network", "nccl_init_error", "nccl_timeout", "remote_worker_lost",
    "sigterm_unattributed", "peer_failure",
}  # fmt: skip
_WAITED = {
    "nccl_timeout",
    "rendezvous_failure",
    "nccl_network",
    "nccl_init_error",
    "peer_failure",
    "remote_worker_lost",
}
_EFFECTS = {"sigkill_unattributed"}  # the sender is not known
# Why others waited in vain for a task: it was silent, or it had left.
SILENT, LEFT = "silent", "left"
_OWN_REASON, _EFFECT, _CONSEQUENCE = range(3)


class TaskResult(NamedTuple):
    """How one task ended. `task` is for example `worker:3`; `state` is failed, stopped or succeeded; `ended` is in
    seconds since 1970.

    `phase` is command, hook or init; `diagnosis` is None if the task was not diagnosed.
    """

    task: str
    state: State
    ended: float
    diagnosis: Diagnosis | None = None
    phase: str = "command"


class Suspect(NamedTuple):
    """A task that others waited for in vain: it was `silent` (it or its machine hung), or had `left` successfully."""

    task: str
    kind: str


class Fold(NamedTuple):
    """Tasks of one kind that failed or stopped after the root. The kind is a cause or `stopped`."""

    kind: str
    tasks: tuple[str, ...]


class JobVerdict(NamedTuple):
    """The root task with its diagnosis (None: nothing failed, or no failed task was diagnosed) and all others. The task
    alone is None if the job failed as a whole.

    If the root only waited for other tasks in vain, `suspects` are the tasks it waited for, as far as they are known.
    """

    task: str | None
    diagnosis: Diagnosis | None
    others: tuple[Fold, ...] = ()
    suspects: tuple[Suspect, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """{"task", "diagnosis", "others": [{"kind", "count", "tasks"}], "suspects": [{"task", "kind"}]}"""
        return {
            "task": self.task,
            "diagnosis": self.diagnosis.to_json() if self.diagnosis else None,
            "others": [
                {"kind": fold.kind, "count": len(fold.tasks), "tasks": list(fold.tasks)} for fold in self.others
            ],
            "suspects": [suspect._asdict() for suspect in self.suspects],
        }

    def summary(self) -> str:
        """`7 other tasks failed after it: nccl_timeout ×6, stopped ×1`; empty if there are none."""
        count = sum(len(fold.tasks) for fold in self.others)
        kinds = ", ".join(f"{fold.kind} ×{len(fold.tasks)}" for fold in self.others)
        return f"{count} other task{'s' * (count != 1)} failed or stopped after it: {kinds}" if count else ""


def verdict(results: Sequence[TaskResult]) -> JobVerdict:
    """Find the root task and the cause of a job's failure from all its tasks."""
    root = _root(results)
    others = _folded(result for result in results if result is not root)
    if root is None:
        return JobVerdict(None, None, others)
    return JobVerdict(root.task, root.diagnosis, others, _suspects(root, results))


def at_time_limit(diagnosis: Diagnosis, results: Sequence[TaskResult]) -> JobVerdict:
    """The verdict on a job whose time is over: no task is its root. Tasks that were stopped for that are left out."""
    others = (result for result in results if result.state == State.FAILED and _kind(result) != diagnosis.cause)
    return JobVerdict(None, diagnosis, _folded(others))


def _folded(results: Iterable[TaskResult]) -> tuple[Fold, ...]:
    folds: dict[str, list[str]] = {}
    for result in results:
        if result.state != State.SUCCEEDED:
            folds.setdefault(_kind(result), []).append(result.task)
    ordered = sorted(folds.items(), key=lambda fold: (-len(fold[1]), fold[0]))
    return tuple(Fold(kind, tuple(tasks)) for kind, tasks in ordered)


def repeats(before: Diagnosis, after: Diagnosis) -> bool:
    """Whether two attempts failed in the same way at the same place. False for an unknown cause."""
    if after.cause in (UNKNOWN, NONE, STOPPED) or after.lone_symptom:
        return False
    return (before.cause, before.rule, before.frame) == (after.cause, after.rule, after.frame)


def _root(results: Sequence[TaskResult]) -> TaskResult | None:
    """The root among the tasks that failed and those that had failed before they were stopped. A victim may be the
    first to end."""
    failed = [result for result in results if result.state == State.FAILED]
    if not failed:
        return None
    best = min(map(_role, failed))
    group = [result for result in failed if _role(result) == best]
    earlier = [result for result in results if result.state == State.STOPPED and _failed_before(result)]
    if best != _OWN_REASON and earlier:
        group = earlier
    elif earlier and all(_logged(result) for result in [*group, *earlier]):
        first = min(map(_logged, group)) - CLOCK_SLACK
        group = [result for result in earlier if _logged(result) < first] or group
    when = _logged if all(map(_logged, group)) else _ended
    first = min(map(when, group))
    together = [result for result in group if when(result) <= first + CLOCK_SLACK]
    return min(together, key=lambda r: (not _sure(r), when(r)))


def _failed_before(stopped: TaskResult) -> bool:
    """Whether a stopped task had failed for a reason of its own."""
    return stopped.diagnosis is not None and stopped.diagnosis.before_stop and _role(stopped) == _OWN_REASON


def _ended(result: TaskResult) -> float:
    return result.ended


def _logged(result: TaskResult) -> float:
    """The time of the failure in the log, in seconds since 1970; 0 if it has no time."""
    written = result.diagnosis.time if result.diagnosis else ""
    try:
        return datetime.fromisoformat(written.replace(",", ".")).timestamp() if written else 0.0
    except (ValueError, OverflowError, OSError):
        return 0.0


def _suspects(root: TaskResult, results: Sequence[TaskResult]) -> tuple[Suspect, ...]:
    """The tasks that no longer took part, if the root only waited for others in vain."""
    if root.diagnosis is None or not (root.diagnosis.lone_symptom or root.diagnosis.cause in _WAITED):
        return ()
    role = root.task.rpartition(":")[0]
    peers = [result for result in results if result.task.rpartition(":")[0] == role]
    left = [Suspect(r.task, LEFT) for r in peers if r.state == State.SUCCEEDED and r.ended < root.ended]
    named = [Suspect(f"{role}:{n}", SILENT) for n in _named(peers) if n < len(peers)]
    waited = [r for r in peers if r.state == State.FAILED and _role(r) == _CONSEQUENCE]
    silent = [Suspect(r.task, SILENT) for r in peers if r.state != State.SUCCEEDED and r not in waited]
    found = named or left or (silent if len(silent) <= len(waited) else [])
    gone = {suspect.task for suspect in left}
    return tuple(s for s in found if s in left or s.task not in gone)[:MAX_SUSPECTS]


def _named(peers: Sequence[TaskResult]) -> list[int]:
    """The ranks that the logs name as missing. Only if every task is one rank, because then ranks are task indices."""
    diagnoses = [result.diagnosis for result in peers if result.diagnosis]
    ranks = {result.task.rpartition(":")[2]: result.diagnosis.rank for result in peers if result.diagnosis}
    if any(rank.removeprefix("rank") != index for index, rank in ranks.items() if rank.startswith("rank")):
        return []
    numbers = (rank.removeprefix("rank") for diagnosis in diagnoses for rank in diagnosis.missing)
    return list(dict.fromkeys(int(number) for number in numbers if number.isdecimal() and len(number) < 6))


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
    if result.state == State.STOPPED or (result.diagnosis and result.diagnosis.cause == STOPPED):
        return State.STOPPED
    return result.diagnosis.cause if result.diagnosis else UNKNOWN
