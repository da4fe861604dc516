"""How often downloads and clones are tried, and the pauses between tries: exponential back-off with full jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from kedge.runtime.actions.base import ActionFailed, ActionJob

T = TypeVar("T")
_MANY_TASKS = 50  # with more tasks than this, their starts are spread over time


class Backoff(NamedTuple):
    """How often to try, and the pauses between tries: exponential back-off with full jitter. The ceiling of the random
    pause is `first_sec`, doubled after each try up to `cap_sec`. `spread_sec` spreads the starts of many tasks."""

    tries: int = 10
    first_sec: float = 1.0
    cap_sec: float = 300.0
    spread_sec: float = 10.0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Backoff:
        """Read the parameter `patience`, a mapping with some of the fields."""
        return cls(**parameters.get("patience", {}))

    def spread(self, job: ActionJob) -> None:
        """Wait a random time, so that the tasks of a large job do not all call a server at once."""
        if job.tasks > _MANY_TASKS:
            job.log(f"waits up to {self.spread_sec:g} seconds before it starts, because the job has {job.tasks} tasks")
            time.sleep(random.uniform(0, self.spread_sec))  # noqa: S311  (not used for a secret)

    def retry(self, job: ActionJob, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds, fails permanently or no tries are left."""
        done = 0
        while True:
            try:
                return attempt()
            except ActionFailed as failed:
                done = 1 if failed.progressed else done + 1
                tries = min(self.tries, failed.tries or self.tries)
                if not failed.transient or done >= tries:
                    raise _given_up(failed, done) from failed
                delay = self.delay(done, failed.delay_sec)
                job.log(f"{failed} (try {done} of {tries}, the next one in {delay:.1f} seconds)")
                job.report(message=str(failed), next_try=done + 1, tries=tries, delay_sec=round(delay, 3))
                time.sleep(delay)

    def delay(self, done: int, server_delay_sec: float | None) -> float:
        """Seconds before the next try, after `done` tries: at least what the server asked for, within `cap_sec`."""
        ceiling = min(self.cap_sec, self.first_sec * 2.0 ** (done - 1))
        return min(self.cap_sec, server_delay_sec or 0.0) + random.uniform(0, ceiling)  # noqa: S311


def _given_up(failed: ActionFailed, tries: int) -> ActionFailed:
    message = f"{failed} (given up after {tries} tries)" if tries > 1 else str(failed)
    return ActionFailed(message, failed.cause, transient=failed.transient, delay_sec=failed.delay_sec, code=failed.code)
