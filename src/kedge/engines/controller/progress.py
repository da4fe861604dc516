"""How far a job has come: what its loop works on, and what a second controller makes of the job's events."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import Any, NamedTuple

from kedge.engines.controller.allocation import Allocation
from kedge.engines.controller.attempt_record import AttemptRecord
from kedge.engines.controller.holds import RunHold
from kedge.engines.controller.retries import Retries
from kedge.engines.controller.states import History
from kedge.engines.controller.stop_requests import StopFacts
from kedge.engines.controller.time_limits import TimeLimits
from kedge.plan.model import Plan
from kedge.quick_dataclasses import dataclass
from kedge.runs.folder import Run


class Stage(IntEnum):
    """How far the latest job attempt has come."""

    BEGINS = 0  # it may have begun
    COMPLETED = 1  # its verdict is recorded
    RETRYING = 2  # the retry after it is decided


class Restart(NamedTuple):
    """A controller takes over in this allocation. `adopts`: it is that of the tasks, which go on. `waited_sec` is how
    long nothing of the job had a place, until now."""

    allocation: Allocation
    adopts: bool
    waited_sec: float = 0.0

    def facts(self) -> dict[str, Any]:
        """It for the event log."""
        number, cause, why = self.allocation
        facts = {"allocation": number, "cause": cause, "why": why, "waited_sec": self.waited_sec}
        text = f"the job continues in another allocation: {self.allocation.ending}"
        if self.adopts:
            text = "the job's controller was started again; its tasks have run on"
        return {"text": text, "adopts": self.adopts, **facts}


@dataclass(slots=True)
class Progress:
    """The latest job attempt is `number`, from 0; `record` is about it. `retry_due` is when the next one may begin, by
    time.monotonic(). `asked_for_time`: its controller has asked for another allocation. `stops` are the latest recorded
    requests to stop the job. `restart` is set for a second controller."""

    number: int
    record: AttemptRecord
    limits: TimeLimits
    hold: RunHold
    stage: Stage = Stage.BEGINS
    retries: Retries = field(default_factory=Retries)
    history: History = field(default_factory=History)
    retry_due: float = 0.0
    asked_for_time: bool = False
    stops: StopFacts | None = None
    restart: Restart | None = None


def beginning(plan: Plan, run: Run) -> Progress:
    """That of a job of which nothing has happened."""
    return Progress(0, AttemptRecord(plan), TimeLimits(plan), RunHold(run.id))
