"""Why the allocation of this controller ends, asked while that happens."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kedge.engines.cluster.base import GoneKind
from kedge.engines.controller.allocation import NODE_FAILURE, PREEMPTED, Allocation
from kedge.engines.slurm import commands, job_ends
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.in_allocation.allocation import SlurmAllocation
from kedge.late_patterns import late_pattern

_PATIENCE_SEC = 5.0
_FACT = late_pattern(r"(?:^| )(JobState|Reason|Restarts)=(\S*)")
_RUNS = frozenset({"RUNNING", "CONFIGURING", "SUSPENDED", "SIGNALING"})
_OF_KIND = {GoneKind.PREEMPTED: PREEMPTED, GoneKind.NODE_LOST: NODE_FAILURE}
_REQUEUE = "JOB REQUEUE"


class AllocationEnd(NamedTuple):
    """The end of an allocation. `requeued`: Slurm gives the job another one. `text` is what Slurm says, `by` who has
    cancelled it, if that is known."""

    kind: GoneKind
    text: str
    by: str = ""
    requeued: bool = False

    @property
    def cause(self) -> str | None:
        """The cause of a Diagnosis; None if there is none for it."""
        return None if _REQUEUE in self.text else _OF_KIND.get(self.kind)


class _JobFacts(NamedTuple):
    state: str = ""
    reason: str = ""
    restarts: int = 0


def find_out(site: SlurmSite, here: SlurmAllocation, said: Collection[tuple[GoneKind, str]]) -> AllocationEnd | None:
    """Ask Slurm. `said` is what it has told the steps. None: the allocation goes on, for all that is known."""
    kind, text = next(iter(said), (None, ""))
    facts = _asked(site, here.job)
    if facts is None:  # nobody answers: then what the steps were told has to do
        return AllocationEnd(kind, text) if kind else None
    if facts.restarts > here.restarts:
        return AllocationEnd(kind or GoneKind.CANCELLED, text or "Slurm has queued the job again", requeued=True)
    if facts.state in _RUNS:
        return None  # a single step has ended, or only the batch script was signalled
    if kind == GoneKind.OUT_OF_TIME or facts.reason == "TimeLimit":
        return AllocationEnd(GoneKind.OUT_OF_TIME, text or "the time limit of the allocation has passed")
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
    return _JobFacts(facts.get("JobState", ""), facts.get("Reason", ""), int(restarts) if restarts.isdecimal() else 0)


def _canceller(site: SlurmSite, job: str) -> str:
    """Only accounting knows."""
    try:
        found = job_ends.asked(site, job)
    except SlurmError:
        return ""
    return found.by if found else ""


def before(here: SlurmAllocation, left: dict[str, object]) -> Allocation:
    """This allocation of the run. `left` is what the controller in the one before has written at its end."""
    if not here.restarts:
        return Allocation()
    if left.get("number") == here.restarts - 1:
        cause = left.get("cause")
        return Allocation(here.restarts, str(cause) if cause in _OF_KIND.values() else None, str(left.get("text", "")))
    return Allocation(here.restarts, None, "Slurm queued the job again, perhaps after a failure of its node")
