"""The job loop of engines without a controller of their own: runs job attempts until the policies end the job."""

from __future__ import annotations

import math
import selectors
import time
from collections.abc import Callable

from kedge.contract import STOPPED_BY_TIME_LIMIT, STOPPED_BY_USER
from kedge.diagnose.decide.job import JobVerdict
from kedge.engines.base import Backend, JobOutcome
from kedge.engines.controller.attempt import Attempt
from kedge.engines.controller.attempt_record import AttemptRecord
from kedge.engines.controller.explanation import explain, root_task
from kedge.engines.controller.judge import Judge, judge, judge_loss
from kedge.engines.controller.progress import Progress, Restart, Stage, beginning
from kedge.engines.controller.states import Emit
from kedge.engines.controller.stop_requests import Stops
from kedge.engines.controller.time_limits import reached
from kedge.plan.model import Plan
from kedge.policy import completion, retry
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State

_MORE_TIME = {"why": "more time was asked for", "decided_by": "allocation"}


def run_job(
    plan: Plan,
    run: Run,
    backend: Backend,
    stops: Stops,
    emit: Emit,
    random: Callable[[], float],
    progress: Progress | None = None,
    no_place: Callable[[], str] = str,
) -> JobOutcome:
    """Run job attempts until one is final, and return how the job ended. Nothing of the job runs after this.

    With `progress` (resume.read), this is a second controller, which goes on where the first one was killed. `no_place`
    says why there is no place for another attempt, whatever the policies say; empty if there is.
    """
    return _JobLoop(plan, run, backend, stops, emit, random, progress or beginning(plan, run), no_place).run()


class _JobLoop:
    def __init__(
        self,
        plan: Plan,
        run: Run,
        backend: Backend,
        stops: Stops,
        emit: Emit,
        random: Callable[[], float],
        now: Progress,
        no_place: Callable[[], str],
    ) -> None:
        self._plan, self._backend, self._stops, self._emit, self._random = plan, backend, stops, emit, random
        self._now, self._no_place = now, no_place
        self._judging = Judge(run, plan.rules)

    def run(self) -> JobOutcome:
        if self._now.restart:
            self._take_over(self._now.restart)
        while True:
            attempt = self._attempt()
            judged, end = self._ended(attempt)
            end = end or self._pause(attempt, judged)
            if end:
                return end
            self._now.number += 1
            self._now.record, self._now.stage = AttemptRecord(self._plan), Stage.BEGINS

    def _take_over(self, restart: Restart) -> None:
        now = self._now
        if now.stops:
            now.record.stops = self._stops.remember(now.stops)
        self._emit(JobEvent.CONTROLLER_RESTARTED, **restart.facts())
        if restart.adopts and now.record.begun and now.stage > Stage.BEGINS:
            self._backend.adopt(now.number, {})  # nothing runs, but the tasks' agents may not know that

    def _attempt(self) -> Attempt:
        now, limits = self._now, self._now.limits
        backend, stops, judging = self._backend, self._stops, self._judging
        return Attempt(
            self._plan, now.number, backend, stops, judging, self._emit, self._random, limits, now.hold, now.record
        )

    def _ended(self, attempt: Attempt) -> tuple[JobVerdict, JobOutcome | None]:
        """Run the attempt, if that has not been done, and decide whether it was the last one: how the job ended then,
        and why the attempt failed."""
        now, record = self._now, self._now.record
        if now.stage == Stage.BEGINS:
            verdict = attempt.abandon() if record.lost else attempt.run()
        else:
            verdict = attempt.take_verdict()
        judged = self._judged(verdict)
        text = explain(verdict, record.tasks, judged)
        if now.stage == Stage.BEGINS:
            facts = {"verdict": verdict.outcome, "code": verdict.code, "trigger": verdict.text, "text": text}
            self._emit(JobEvent.ATTEMPT_COMPLETED, attempt=now.number, **facts, root=_root(judged))
        if now.stage == Stage.RETRYING:
            return judged, None
        if verdict.outcome == State.SUCCEEDED or attempt.disk_full or verdict.code == STOPPED_BY_TIME_LIMIT:
            return judged, self._outcome(verdict, judged, text, attempt.disk_full)
        if self._stops.count:
            self._record_stop(attempt)
            return judged, self._outcome(verdict, judged, text)
        if why := self._no_retry(verdict, judged):
            return judged, self._outcome(verdict, judged, f"{text}; not retried: {why}")
        return judged, None

    def _judged(self, verdict: completion.AttemptVerdict) -> JobVerdict:
        record, limit = self._now.record, self._now.limits.of_job
        if record.lost and verdict == record.loss:
            return judge_loss(record.lost.cause, record.lost.ending)
        return judge(record.tasks.values(), limit if verdict.code == STOPPED_BY_TIME_LIMIT else None)

    def _no_retry(self, verdict: completion.AttemptVerdict, judged: JobVerdict) -> str:
        """Record that the job is tried again, or return why it is not."""
        now = self._now
        delay: float | None = 0.0
        if now.record.lost and now.asked_for_time and verdict == now.record.loss:
            why = _MORE_TIME  # not a failure, so it counts for nothing
        else:
            failure = self._judging.failure(
                judged, verdict.code, now.number, root_task(now.record.tasks, judged), now.history
            )
            policy = retry.Policy(True, self._plan.retry.job)
            delay = now.retries.again(policy, self._plan.retry, failure, self._random, job=True)
            why = now.retries.facts()
        if delay is None:
            return now.retries.why
        if no_place := self._no_place():
            return no_place
        facts = {"delay_sec": round(delay, 3), **why, **now.retries.counts(), **now.history.facts()}
        self._emit(JobEvent.JOB_RETRYING, attempt=now.number, **facts)
        now.retry_due = time.monotonic() + delay
        return ""

    def _pause(self, attempt: Attempt, judged: JobVerdict) -> JobOutcome | None:
        """Wait for the next attempt. Returns how the job ended if there is none."""
        limits = self._now.limits

        def end() -> float:  # the backend may find another limit meanwhile
            return min(self._now.retry_due, time.monotonic() + limits.job_left())

        if not _wait(end, self._stops, self._backend):
            self._record_stop(attempt)
            return self._outcome(completion.STOPPED, judged, completion.STOPPED.text)
        if limits.of_job and limits.job_left() <= 0:
            if f"{JobEvent.TIME_LIMIT_REACHED} {limits.of_job.key}" not in self._now.record.told:
                facts = {"text": reached(limits.of_job), "message": limits.of_job.message}
                self._emit(JobEvent.TIME_LIMIT_REACHED, by=limits.of_job.key, **facts)
            verdict = completion.at_time_limit(limits.of_job.message)
            return self._outcome(verdict, self._judged(verdict), verdict.text)
        return None

    def _record_stop(self, attempt: Attempt) -> None:
        if self._stops.count > attempt.stops_seen:
            attempt.stops_seen = self._stops.count
            self._emit(JobEvent.STOP_REQUESTED, **self._stops.facts())

    def _outcome(
        self, verdict: completion.AttemptVerdict, judged: JobVerdict, text: str, disk_full: bool = False
    ) -> JobOutcome:
        number, stops = self._now.number, self._stops
        if verdict.code == STOPPED_BY_USER:
            return JobOutcome(State.STOPPED, verdict.code, f"stopped by {stops.by}", number, judged, stops.interrupted)
        return JobOutcome(verdict.outcome, verdict.code, text, number, judged, stops.interrupted, disk_full)


def _wait(end: Callable[[], float], stops: Stops, backend: Backend) -> bool:
    """Wait until `end()`, by time.monotonic(); False if a stop was requested in the meantime. What the backend says
    about the attempt before changes nothing any more."""
    polled = backend.due < math.inf
    with selectors.DefaultSelector() as selector:
        selector.register(stops, selectors.EVENT_READ)
        if polled:
            selector.register(backend, selectors.EVENT_READ)
        while not stops.count and (left := end() - time.monotonic()) > 0:
            selector.select(min(left, max(0.0, backend.due - time.monotonic())))
            stops.drain()
            if polled:
                backend.poll()
    return not stops.count


def _root(judged: JobVerdict) -> dict[str, str | None] | None:
    found = judged.diagnosis
    return {"task": judged.task, "cause": found.cause, "behavior": found.behaviour} if found else None
