"""What the owner of a run asks of its driver: written on the anchor of the run, which the driver watches."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import Any, NamedTuple

from kedge.engines.controller.stop_requests import KILL, NOTICE
from kedge.engines.kubernetes.access import liveness, removal, submitted, unheard_kill
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.objects import labels
from kedge.errors import CannotRun, KedgeError
from kedge.runs import copies, report
from kedge.runs.controller_lock import RELEASE
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase, has_begun, has_end, is_controlled
from kedge.states import State

_TRIES = 20  # of a change that others make at the same time
_PATIENCE_SEC = 2.0  # for another command that writes the log
_MOST = 200  # requests that are kept on an anchor
CONFLICT = 409


class _OwnerWish(NamedTuple):
    """A request: its name, and who asks, in words."""

    kind: str
    by: str


_WISHES = {
    signal.SIGINT: _OwnerWish("interrupt", "Ctrl-C"),
    signal.SIGTERM: _OwnerWish("stop", "a stop request"),
    signal.SIGHUP: _OwnerWish("hangup", "the closed terminal"),
    KILL: _OwnerWish("kill", "a stop request"),
    NOTICE: _OwnerWish("notice", ""),
    RELEASE: _OwnerWish("release", ""),
}


def stop(run: Run, kill: bool) -> tuple[str, ...]:
    """Stop a run. Returns notes for the user. CannotRun: the cluster cannot be reached."""
    return _ask(run, _WISHES[KILL if kill else signal.SIGTERM])


def forward(run: Run, number: int) -> None:
    """Pass on what a signal to a controller would ask for. CannotRun as from `stop`."""
    _ask(run, _WISHES[signal.Signals(number)])


def forget(run: Run) -> None:
    """Delete all that the cluster has of an ended run, on volumes, too. CannotRun."""
    if run.cluster.job.exists():
        found = SubmittedRun(run)
        if (anchor := found.anchor()) is not None:
            if job := found.job():
                removal.remove(found, job, anchor)
            found.api.delete("ConfigMap", found.names.anchor, uid=anchor["metadata"]["uid"])
    run.cluster.remove_secrets()


def _ask(run: Run, wish: _OwnerWish) -> tuple[str, ...]:
    if not is_controlled(run):
        _complete(run)
        return ()
    found = SubmittedRun(run)
    pod = found.driver()
    if (pod is None or not submitted.is_running(pod)) and not _has_begun(run):
        return _withdraw(run, found, wish)
    try:
        request = _append(found, wish)
    except _AnchorGone:
        if liveness.ask_scheduler(run).state != JobPhase.GONE:
            raise CannotRun(f"{run.id} has not got the request, and goes on; try again") from None
        return ()
    if wish.kind == "kill":
        return unheard_kill.end_unless_heard(found, request, wish.by, lambda: _record(run, wish))
    if pod is None or not submitted.is_running(pod):
        return (
            "its driver does not run now, and gets the request when it does; if that does not help, kedge stop --kill "
            f"{run.id} ends everything",
        )
    return ()


def _has_begun(run: Run) -> bool:
    """Whether the driver has done anything yet."""
    copies.fetch(run)
    return has_begun(run)


def _withdraw(run: Run, found: SubmittedRun, wish: _OwnerWish) -> tuple[str, ...]:
    """Stop a run whose driver has never run. There is nothing to warn or to release."""
    if not wish.by:
        return ()
    _record(run, wish)
    _append(found, wish)  # if it starts just now
    found.api.delete("ConfigMap", found.names.anchor)
    liveness.record_end(run, State.STOPPED, f"stopped by {wish.by}")
    return ()


def _record(run: Run, wish: _OwnerWish) -> None:
    """Record who asked for a stop, unless somebody has already."""
    if liveness.stopped_by(run):
        return
    with suppress(TimeoutError), EventLog(run.events, _PATIENCE_SEC) as log:
        log.append(JobEvent.STOP_REQUESTED, by=wish.by, kill=wish.kind == "kill")


class _AnchorGone(CannotRun):
    """There is no anchor to write on."""


def _append(found: SubmittedRun, wish: _OwnerWish) -> str:
    """Add a request to those on the anchor. Another command may do the same at once. Returns its id."""
    entry = {"id": os.urandom(8).hex(), "kind": wish.kind, "by": ""}
    for _ in range(_TRIES):
        anchor = found.anchor()
        if anchor is None:
            raise _AnchorGone(f"{found.run.id} is not in the namespace any more")
        head = anchor["metadata"]
        text = json.dumps([*_requests((head.get("annotations") or {}).get(labels.REQUESTS)), entry][-_MOST:])
        changes = {"resourceVersion": head["resourceVersion"], "annotations": {labels.REQUESTS: text}}
        try:
            found.api.patch("ConfigMap", found.names.anchor, {"metadata": changes})
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            continue
        return entry["id"]
    raise CannotRun(f"{found.run.id} has not got the request: others ask it for things all the time; try again")


def _requests(text: Any) -> list[Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return []
    return value if isinstance(value, list) else []


def _complete(run: Run) -> None:
    """Finish the records of a run whose driver was killed after it had recorded the end."""
    if has_end(run):
        run.cluster.remove_secrets()
        with suppress(OSError, KedgeError):
            report.complete(run)
