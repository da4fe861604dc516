"""The end of a run whose driver does not act on `kedge stop --kill`: it lacks rights, hangs, or has no node."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kedge.engines.kubernetes.access import fetching, kept_decisions, liveness
from kedge.engines.kubernetes.access.submitted import SubmittedRun
from kedge.engines.kubernetes.api import ApiError
from kedge.engines.kubernetes.in_driver import log_facts
from kedge.engines.kubernetes.objects import labels
from kedge.errors import CannotRun
from kedge.states import State

ACT_SEC = 30.0  # for the driver; another one may need longer, but who kills does not wait for it
_FIRST_SEC, _LONGEST_SEC = 0.2, 3.0  # between two looks
_FETCH_SEC = 30.0


def end_unless_heard(found: SubmittedRun, request: str, by: str, record: Callable[[], None]) -> tuple[str, ...]:
    """Wait until the driver has taken up a request. If it does not in time, delete all that the cluster has of the run,
    and record its end; `record` comes before that. Returns notes for the user. CannotRun: it cannot be deleted."""
    if _is_heard_in_time(found, request):
        return ()
    anchor = found.anchor()
    if anchor is None:
        return ()
    why = _fetch(found, anchor)
    if _is_heard(found, request):
        return ()
    record()
    found.api.delete("ConfigMap", found.names.anchor, uid=anchor["metadata"]["uid"])
    _end_pods(found)
    liveness.record_end(found.run, State.STOPPED, f"stopped by {by}")
    lost = f"; the end of its logs may be missing, because they could not be fetched: {why}" if why else ""
    return (f"its driver has not acted within {ACT_SEC:g} s, so all that the cluster had of it was deleted{lost}",)


def _is_heard_in_time(found: SubmittedRun, request: str) -> bool:
    end, wait = time.monotonic() + ACT_SEC, _FIRST_SEC
    while True:
        with suppress(ApiError):  # then it is not known
            if _is_heard(found, request):
                return True
        if time.monotonic() + wait > end:
            return False
        time.sleep(wait)
        wait = min(_LONGEST_SEC, 1.5 * wait)


def _is_heard(found: SubmittedRun, request: str) -> bool:
    """Whether a driver has recorded that it takes up the request, or the run has ended."""
    anchor = found.anchor()
    if anchor is None or labels.ENDED in (anchor["metadata"].get("annotations") or {}):
        return True
    pieces, _ = found.api.list("ConfigMap", labels.of_component(found.names.name, labels.LOG))
    line = log_facts.request_line(request)
    return any(line in text for piece in pieces for text in (piece.get("data") or {}).values())


def _fetch(found: SubmittedRun, anchor: dict[str, Any]) -> str:
    """Fetch what goes with the pods. Returns why that was not possible; empty if it was."""
    why = fetching.fetch(found.run, logs=True, patience_sec=_FETCH_SEC)
    if why:
        with suppress(CannotRun, OSError):
            kept_decisions.restore(found, anchor)
    return why


def _end_pods(found: SubmittedRun) -> None:
    """The cluster deletes what its anchor owned, but lets pods have their whole grace."""
    with suppress(ApiError):
        for pod in found.api.list("Pod", labels.of_component(found.names.name, labels.TASK))[0]:
            with suppress(ApiError):
                found.api.delete("Pod", pod["metadata"]["name"], uid=pod["metadata"]["uid"], grace_sec=1)
