"""Counts retries, and decides whether and when there is another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kedge.plan.model import RetryPolicy
from kedge.policy import retry, retry_decision
from kedge.policy.retry_decision import Decision, Failure, RetriesSoFar
from kedge.quick_dataclasses import dataclass

# A server may request a longer delay than kedge's own back-off, but not an unlimited one.
MOST_ASKED_SEC = 3600.0


@dataclass(slots=True)
class Retries:
    """The retries of one task, or of the whole job. `last` is the latest decision."""

    done: RetriesSoFar = field(default_factory=RetriesSoFar)
    last: Decision | None = None

    def again(
        self, policy: retry.Policy, limits: RetryPolicy, failure: Failure, random: Callable[[], float], *, job: bool
    ) -> float | None:
        """Seconds to wait before the next try after a failure; None is no more tries."""
        self.last = decision = retry_decision.decide(policy, self.done, failure, limits.max_transient, job=job)
        if not decision.retry:
            return None
        asked = min(MOST_ASKED_SEC, max(0.0, failure.retry_after_sec))
        if decision.accountable:
            self.done = self.done._replace(accountable=self.done.accountable + 1)
            return asked
        if failure.code != retry_decision.PREEMPTED:
            self.done = self.done._replace(transient=self.done.transient + 1, unseen=self.done.unseen + failure.unseen)
        low, high = decision.delay_sec
        conflict = low + (high - low) * random()
        return max(asked, conflict or retry.backoff(max(1, self.done.transient), random, limits.backoff_sec))

    def counts(self) -> dict[str, dict[str, int]]:
        """The retries so far for the event log."""
        return {"retries": self.done._asdict()}

    @classmethod
    def of_counts(cls, facts: Mapping[str, Any]) -> Retries:
        """The inverse of `counts`. KeyError or TypeError if the facts are not from there."""
        return cls(RetriesSoFar(**facts["retries"]))

    def facts(self) -> dict[str, str]:
        """The latest decision for the event log."""
        return {"why": self.last.why, "decided_by": self.last.decider} if self.last else {}

    @property
    def why(self) -> str:
        """The reason of the latest decision."""
        return self.last.why if self.last else ""
