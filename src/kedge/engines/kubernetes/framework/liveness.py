"""What FrameworkController says of a run, and the end of a run whose Framework was deleted."""

from __future__ import annotations

import time

from kedge.engines.kubernetes.access import liveness
from kedge.engines.kubernetes.framework import following, progress
from kedge.engines.kubernetes.framework.progress import FrameworkProgress
from kedge.engines.kubernetes.framework.submitted import SubmittedFramework
from kedge.engines.kubernetes.pods import waiting
from kedge.errors import CannotRun
from kedge.runs.folder import Run
from kedge.runs.liveness import JobPhase, SchedulerAnswer, has_end
from kedge.states import State

_SHOWN_PODS = 50  # whose reasons are looked at
_DELETED = "its Framework was deleted"
_NOBODY = "FrameworkController has not looked at it yet; is it running?"


def ask_scheduler(run: Run) -> SchedulerAnswer:
    """What is known of a run now. Records the end of a run that has no Framework any more, once."""
    return liveness.recorded(run, _asked(run))


def _asked(run: Run) -> SchedulerAnswer:
    now = time.time()
    try:
        found = SubmittedFramework(run)
        framework = found.framework()
        if framework is None:
            return liveness.without_owner(found, _DELETED, now)
        return _of_progress(run, found, progress.read(framework), now)
    except CannotRun as error:
        return liveness.unreachable(run, error, now)


def _of_progress(run: Run, found: SubmittedFramework, now_is: FrameworkProgress, now: float) -> SchedulerAnswer:
    name = found.name
    if now_is.is_over:
        why = "" if has_end(run) else following.fetch(run)
        state = JobPhase.GONE if has_end(run) else JobPhase.RUNNING
        return SchedulerAnswer(name, state, text=why, checked=now)
    if now_is.state == State.WAITING:
        return SchedulerAnswer(name, JobPhase.PENDING, now_is.state, _waits(found, now_is), checked=now)
    return SchedulerAnswer(name, JobPhase.RUNNING, checked=now)


def _waits(found: SubmittedFramework, now_is: FrameworkProgress) -> str:
    """Why none of its tasks runs, in words."""
    if not now_is.seen:
        return _NOBODY
    for pod in found.pods()[:_SHOWN_PODS]:
        if wait := waiting.of_pod(pod):
            return f"{pod['metadata']['name']}: {wait.words}"
    return "its tasks wait for each other, or their pods are being made"
