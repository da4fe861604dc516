"""What the owner of a run asks of FrameworkController."""

from __future__ import annotations

import signal
from contextlib import suppress

from kedge.engines.controller.stop_requests import KILL
from kedge.engines.kubernetes.access import liveness
from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.framework import following, progress
from kedge.engines.kubernetes.framework.submitted import SubmittedFramework
from kedge.errors import CannotRun
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import is_controlled
from kedge.states import State

_PATIENCE_SEC = 5.0  # for another command that writes the log
_BY = {signal.SIGINT: "Ctrl-C", signal.SIGHUP: "the closed terminal"}
_REQUEST = "a stop request"
_KILL_GRACE_SEC = 1  # 0 would give up to know that a pod has ended


def stop(run: Run, kill: bool) -> tuple[str, ...]:
    """Stop a run. Returns notes for the user. CannotRun: the cluster cannot be reached."""
    return _stop(run, _REQUEST, kill=kill)


def forward(run: Run, number: int) -> None:
    """Pass on what a signal to a controller would ask for; all but stops have no meaning here. CannotRun."""
    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, KILL):
        _stop(run, _BY.get(signal.Signals(number), _REQUEST), kill=number == KILL)


def forget(run: Run) -> None:
    """Delete all that the cluster has of an ended run. CannotRun."""
    if run.cluster.job.exists():
        SubmittedFramework(run).delete()
    run.cluster.remove_secrets()


def _stop(run: Run, by: str, *, kill: bool) -> tuple[str, ...]:
    if not is_controlled(run):
        return ()
    found = SubmittedFramework(run)
    framework = found.framework()
    if framework is None:
        liveness.record_end(run, State.STOPPED, f"stopped by {by}")
        return ()
    again = bool(liveness.stopped_by(run))
    _record(run, by, kill=kill or again)
    if not progress.read(framework).seen:  # nothing of it has ever run
        found.delete()
        liveness.record_end(run, State.STOPPED, f"stopped by {by}")
        return ()
    found.stop()
    if kill or again:
        _end_pods(found)
    following.fetch(run)
    return ()


def _record(run: Run, by: str, *, kill: bool) -> None:
    with suppress(TimeoutError), EventLog(run.events, _PATIENCE_SEC) as log:
        log.append(JobEvent.STOP_REQUESTED, by=by, kill=kill)


def _end_pods(found: SubmittedFramework) -> None:
    """End its pods without their grace, which FrameworkController gives them."""
    failed = ""
    for pod in found.pods():
        head = pod["metadata"]
        try:
            found.api.delete("Pod", head["name"], uid=head["uid"], grace_sec=_KILL_GRACE_SEC)
        except ApiError as error:
            failed = str(error)
    if failed:
        raise CannotRun(f"the tasks are being stopped, but not at once: {failed}")
