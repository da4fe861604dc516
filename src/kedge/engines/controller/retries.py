"""How often something was tried again, and whether and when it is tried once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kedge.plan.model import RetryPolicy
from kedge.policy import retry
from kedge.policy.codes import Behaviour


@dataclass(slots=True)
class Retries:
    """The retries of one task, or of the whole job. `why` explains the last answer."""

    accountable: int = 0
    transient: int = 0
    why: str = ""

    def again(
        self,
        policy: retry.Policy,
        limits: RetryPolicy,
        code: int,
        behaviour: Behaviour,
        random: Callable[[], float],
        *,
        job: bool,
    ) -> float | None:
        """Seconds to wait before the next try after a failure with `code`; None is no more tries."""
        decision = retry.limit(
            retry.decide(policy, self.accountable, behaviour, code, stopping=False, job=job),
            self.transient,
            limits.max_transient,
        )
        self.why = decision.why
        if not decision.retry:
            return None
        if decision.accountable:
            self.accountable += 1
            return 0.0
        self.transient += 1
        low, high = decision.delay_sec
        conflict = low + (high - low) * random()
        return conflict or retry.backoff(self.transient, random, limits.backoff_sec)
