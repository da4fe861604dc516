"""What Kueue says about a Workload, the object that it makes of a pod or of a group of pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.engines.cluster.base import GoneKind
from kedge.engines.kubernetes.pods import fields
from kedge.engines.kubernetes.pods.containers import PodEnd
from kedge.engines.kubernetes.pods.fields import Fields

_DELETED = ("WorkloadDeleted", "NoMatchingWorkload")
_DEACTIVATED = "deactivated"
_PREEMPTION = "Preempted"
_STOP = "stopped"  # the queue, by its administrator


def why_waiting(workload: Mapping[str, Any] | None) -> str:
    """Why a Workload is not admitted, in Kueue's words; empty if it does not say."""
    if workload is None:
        return ""
    reserved = fields.condition(workload, "QuotaReserved")
    if reserved.get("status") == "True":
        return _admission_checks(workload)
    evicted = fields.condition(workload, "Evicted")
    message = fields.one_line(reserved.get("message")) or str(reserved.get("reason") or "")
    if not message and evicted.get("status") == "True":
        message = fields.one_line(evicted.get("message"))
    if (workload.get("spec") or {}).get("active") is False:
        return f"it was deactivated; {message}" if message else "it was deactivated"
    return message


def _admission_checks(workload: Fields) -> str:
    """It has quota, and the site asks for more."""
    for check in fields.status(workload).get("admissionChecks") or ():
        if check.get("state") != "Ready":
            message = fields.one_line(check.get("message"))
            name = check.get("name", "")
            return f"it has quota, and waits for the site's check {name}" + (f": {message}" if message else "")
    return "it has quota, and is about to be admitted"


def ended(condition: Fields) -> PodEnd:
    """The end of a pod that Kueue has deleted, from the condition that gives the reason."""
    reason = str(condition.get("reason") or "")
    message = fields.one_line(condition.get("message")) or reason
    text = f"by Kueue: {message}"
    if reason in _DELETED:
        return PodEnd(GoneKind.DELETED, f"its Workload in Kueue was deleted: {message}")
    if _DEACTIVATED in message.lower():
        return PodEnd(GoneKind.CANCELLED, text)
    taken_back = reason == _PREEMPTION or message.startswith(_PREEMPTION) or _STOP in message.lower()
    return PodEnd(GoneKind.PREEMPTED if taken_back else GoneKind.EVICTED, text)
