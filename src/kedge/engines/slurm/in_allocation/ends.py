"""Asks Slurm why the allocation of this controller ends, while that happens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kedge.engines.cluster.base import GoneKind
from kedge.engines.controller.allocation import NODE_FAILURE, PREEMPTED, Allocation
from kedge.engines.slurm import commands, job_ends, job_states
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.in_allocation import node_question
from kedge.engines.slurm.in_allocation.allocation import SlurmAllocation
from kedge.late_patterns import late_pattern

_PATIENCE_SEC = 5.0
_FACT = late_pattern(r"(?:^| )(JobState|Reason|Restarts|StartTime|PreemptTime)=(\S*)")
_OF_KIND = {GoneKind.PREEMPTED: PREEMPTED, GoneKind.NODE_LOST: NODE_FAILURE}
_BY_HAND = "the job was requeued (scontrol requeue)"
_PREEMPTED, _TIME_IS_OVER = "preempted for another job", "the time limit of the allocation has passed"
_WORDS = {  # for what Slurm says to steps: "STEP 7.0 ON n1 CANCELLED AT 2026-11-23T12:05:07 DUE TO PREEMPTION"
    "DUE TO JOB REQUEUE": _BY_HAND,
    "DUE TO PREEMPTION": _PREEMPTED,
    "DUE TO TIME LIMIT": _TIME_IS_OVER,
}
_GRACE = f"{_PREEMPTED}, with a grace time"


class AllocationEnd(NamedTuple):
    """The end of an allocation. `requeued`: Slurm gives the job another one. `text` says why, `by` who has
    cancelled it, if that is known. `grace`: it has not ended yet, but tasks have been asked to."""

    kind: GoneKind
    text: str
    by: str = ""
    requeued: bool = False
    grace: bool = False

    @property
    def cause(self) -> str | None:
        """The cause of a Diagnosis; None if there is none for it."""
        return None if self.text == _BY_HAND else _OF_KIND.get(self.kind)


class _JobFacts(NamedTuple):
    state: str = ""
    reason: str = ""
    restarts: int = 0
    preempted: bool = False  # it still runs, for the grace time of its partition or QOS


def find_out(site: SlurmSite, here: SlurmAllocation, said: Collection[tuple[GoneKind, str]]) -> AllocationEnd | None:
    """Ask Slurm. `said` is what srun has printed in the steps. None: the allocation continues, as far as is known."""
    kind, text = min(said, key=lambda each: each[0] == GoneKind.CANCELLED, default=(None, ""))
    text = next((words for slurms, words in _WORDS.items() if text.endswith(slurms)), text)
    facts = _asked(site, here.job)
    if facts is None:  # Slurm does not answer: use what srun has printed
        return AllocationEnd(kind, text) if kind else None
    if facts.restarts > here.restarts:
        return AllocationEnd(kind or GoneKind.CANCELLED, text or "Slurm has requeued the job", requeued=True)
    runs = job_states.has_allocation(facts.state)
    if runs and facts.preempted:
        return AllocationEnd(GoneKind.PREEMPTED, _GRACE, grace=True)
    if runs:
        return None  # a single step has ended, or only the batch script was signalled
    if kind == GoneKind.OUT_OF_TIME or facts.reason == "TimeLimit":
        return AllocationEnd(GoneKind.OUT_OF_TIME, text or _TIME_IS_OVER)
    if kind in (GoneKind.PREEMPTED, GoneKind.NODE_LOST, GoneKind.OUT_OF_MEMORY):
        return AllocationEnd(kind, text)
    return AllocationEnd(GoneKind.CANCELLED, text, _canceller(site, here.job))


def _asked(site: SlurmSite, job: str) -> _JobFacts | None:
    try:
        said = commands.run(site, "scontrol", "--oneliner", "show", "job", job, patience_sec=_PATIENCE_SEC)
    except SlurmError:
        return None
    facts = dict(_FACT.findall(said.split("\n", 1)[0]))
    restarts = facts.get("Restarts", "")
    number = int(restarts) if restarts.isdecimal() else 0
    # Times in one format, of one clock. One before this allocation would be that of the one before.
    preempted = facts.get("PreemptTime", "")[:1].isdecimal() and facts["PreemptTime"] >= facts.get("StartTime", "")
    return _JobFacts(facts.get("JobState", ""), facts.get("Reason", ""), number, preempted)


def _canceller(site: SlurmSite, job: str) -> str:
    """Only accounting knows."""
    try:
        found = job_ends.asked(site, job)
    except SlurmError:
        return ""
    return found.by if found else ""


def before(
    site: SlurmSite, here: SlurmAllocation, left: Mapping[str, object], heartbeat: Mapping[str, object]
) -> Allocation:
    """This allocation of the run. `left` is what the controller in the one before has written at its end, or at its
    beginning if it could not write any more; `heartbeat` is its last sign of life."""
    if not here.restarts:
        return Allocation()
    known = left.get("number") == here.restarts - 1
    if known and "text" in left:
        cause = left.get("cause")
        return Allocation(here.restarts, str(cause) if cause in _OF_KIND.values() else None, str(left["text"]))
    node, seen = str(left.get("node", "")) if known else "", heartbeat.get("time")
    if node and isinstance(seen, int | float) and _has_failed(site, node, seen):
        return Allocation(here.restarts, NODE_FAILURE, f"the node {node}, on which its controller ran, has failed")
    return Allocation(here.restarts, None, "Slurm has requeued the job, perhaps after a failure of its node")


def _has_failed(site: SlurmSite, node: str, seen: float) -> bool:
    """Whether a node is down, or was started again after this time."""
    try:
        said = commands.run(site, "scontrol", "--oneliner", "--all", "show", "node", node, patience_sec=_PATIENCE_SEC)
    except SlurmError:
        return False
    facts = node_question.read(said).get(node)
    return facts is not None and (facts.is_down or facts.booted > seen)
