"""The job loop of engines without a controller of their own: runs job attempts until the policies end the job."""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Callable
from functools import partial

from kedge.contract import STOPPED_BY_TIME_LIMIT, STOPPED_BY_USER, TaskTimeLimit
from kedge.diagnose.decide.job import JobVerdict
from kedge.engines.base import Backend, JobOutcome
from kedge.engines.controller.attempt import Attempt
from kedge.engines.controller.holds import RunHold
from kedge.engines.controller.judge import Judge, judge
from kedge.engines.controller.retries import Retries
from kedge.engines.controller.states import Emit, History
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.controller.time_limits import TimeLimits, reached
from kedge.plan.model import Plan
from kedge.policy import completion, retry
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State


def run_job(
    plan: Plan, run: Run, backend: Backend, stops: Stops, emit: Emit, random: Callable[[], float]
) -> JobOutcome:
    """Run job attempts until one is final, and return how the job ended. Nothing of the job runs after this."""
    policy = retry.Policy(True, plan.retry.job)
    retries, history, judging = Retries(), History(), Judge(run, plan.rules)
    number, limits, hold = 0, TimeLimits(plan), RunHold(run.id)
    while True:
        attempt = Attempt(plan, number, backend, stops, judging, emit, random, limits, hold)
        verdict = attempt.run()
        judged = judge(attempt.tasks.values(), limits.of_job if verdict.code == STOPPED_BY_TIME_LIMIT else None)
        text = attempt.explain(judged)
        facts = {"verdict": verdict.outcome, "code": verdict.code, "trigger": verdict.text, "text": text}
        emit(JobEvent.ATTEMPT_COMPLETED, attempt=number, **facts, root=_root(judged))
        end = partial(_outcome, verdict, stops, attempt=number, judged=judged)
        over = attempt.disk_full or stops.count or verdict.code == STOPPED_BY_TIME_LIMIT
        if over or verdict.outcome == State.SUCCEEDED:
            return end(text=text, disk_full=attempt.disk_full)
        failure = judging.failure(judged, verdict.code, number, attempt.root(judged), history)
        delay = retries.again(policy, plan.retry, failure, random, job=True)
        if delay is None:
            return end(text=f"{text}; not retried: {retries.why}")
        emit(JobEvent.JOB_RETRYING, attempt=number, delay_sec=round(delay, 3), **retries.facts())
        if not _pause(min(delay, limits.job_left()), stops, backend):
            return _outcome(completion.STOPPED, stops, attempt=number, judged=judged, text=completion.STOPPED.text)
        if limits.of_job and limits.job_left() <= 0:
            return _without_time(attempt, limits.of_job, stops, emit, number)
        number += 1


def _without_time(attempt: Attempt, limit: TaskTimeLimit, stops: Stops, emit: Emit, number: int) -> JobOutcome:
    """The end of a job whose time is over before its next attempt."""
    emit(JobEvent.TIME_LIMIT_REACHED, by=limit.key, text=reached(limit))
    verdict = completion.at_time_limit(limit.message)
    judged = judge(attempt.tasks.values(), limit)
    return _outcome(verdict, stops, attempt=number, judged=judged, text=verdict.text)


def _pause(seconds: float, stops: Stops, backend: Backend) -> bool:
    """Wait; False if a stop was requested in the meantime. What is left of the attempt changes nothing any more."""
    end, polled = time.monotonic() + max(0.0, seconds), backend.due < math.inf
    with selectors.DefaultSelector() as selector:
        selector.register(stops, selectors.EVENT_READ)
        if polled:
            selector.register(backend, selectors.EVENT_READ)
        while not stops.count and (left := end - time.monotonic()) > 0:
            selector.select(min(left, max(0.0, backend.due - time.monotonic())))
            stops.drain()
            if polled:
                backend.poll()
    return not stops.count


def _root(judged: JobVerdict) -> dict[str, str | None] | None:
    found = judged.diagnosis
    return {"task": judged.task, "cause": found.cause, "behavior": found.behaviour} if found else None


def _outcome(
    verdict: completion.AttemptVerdict,
    stops: Stops,
    *,
    attempt: int,
    judged: JobVerdict,
    text: str,
    disk_full: bool = False,
) -> JobOutcome:
    if verdict.code == STOPPED_BY_USER:
        return JobOutcome(State.STOPPED, verdict.code, f"stopped by {stops.by}", attempt, judged, stops.interrupted)
    return JobOutcome(verdict.outcome, verdict.code, text, attempt, judged, stops.interrupted, disk_full)
