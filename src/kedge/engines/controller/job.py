"""The controller of engines that have none of their own: attempts of a job until its policies are satisfied."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable

from kedge.contract import STOPPED_BY_USER
from kedge.engines.base import Backend, Outcome
from kedge.engines.controller.attempt import Attempt
from kedge.engines.controller.retries import Retries
from kedge.engines.controller.states import Emit
from kedge.engines.controller.stops import Stops
from kedge.plan.model import Plan
from kedge.policy import completion, retry
from kedge.runs import status


def run_job(plan: Plan, backend: Backend, stops: Stops, emit: Emit, random: Callable[[], float]) -> Outcome:
    """Run attempts of the job until one is final, and say how the job ended. Nothing of it runs when this returns."""
    policy = retry.Policy(True, plan.retry.job)
    retries = Retries()
    number = 0
    while True:
        attempt = Attempt(plan, number, backend, stops, emit, random)
        verdict = attempt.run()
        text = attempt.explain()
        facts = {"verdict": verdict.outcome, "code": verdict.code, "trigger": verdict.text, "text": text}
        emit(status.ATTEMPT_COMPLETED, attempt=number, **facts)
        if attempt.disk_full or stops.count or verdict.outcome == completion.SUCCEEDED:
            return _outcome(verdict, stops, text, attempt.disk_full)
        delay = retries.again(policy, plan.retry, verdict.code, random, job=True)
        if delay is None:
            return _outcome(verdict, stops, f"{text}; not retried: {retries.why}")
        emit(status.JOB_RETRYING, attempt=number, delay_sec=round(delay, 3), why=retries.why)
        if not _pause(delay, stops):
            return _outcome(completion.STOPPED, stops, completion.STOPPED.text)
        number += 1


def _pause(seconds: float, stops: Stops) -> bool:
    """Wait; False when a stop was asked for meanwhile."""
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(stops, selectors.EVENT_READ)
        while not stops.count and (left := end - time.monotonic()) > 0:
            selector.select(left)
            stops.drain()
    return not stops.count


def _outcome(verdict: completion.Verdict, stops: Stops, text: str, disk_full: bool = False) -> Outcome:
    if verdict.code == STOPPED_BY_USER:
        return Outcome("stopped", verdict.code, f"stopped by {stops.by}", stops.interrupted, disk_full)
    return Outcome(verdict.outcome, verdict.code, text, stops.interrupted, disk_full)
