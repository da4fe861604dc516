"""Reading a pod and its events as the API gives them. Anything may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Fields = Mapping[str, Any]
APP, AGENT, PREPARE = "app", "agent", "prepare"  # the containers of a task's pod
_NONE: Fields = {}


def status(pod: Fields) -> Fields:
    """What the cluster says about it."""
    return pod.get("status") or _NONE


def node(pod: Fields) -> str:
    """The name of its node; empty if it has none yet."""
    return str((pod.get("spec") or _NONE).get("nodeName") or "")


def phase(pod: Fields) -> str:
    """Pending, Running, Succeeded, Failed, Unknown."""
    return str(status(pod).get("phase") or "")


def reason(pod: Fields) -> str:
    """Of the whole pod, such as Evicted."""
    return str(status(pod).get("reason") or "")


def message(pod: Fields) -> str:
    """What belongs to the reason, in one line."""
    return one_line(status(pod).get("message"))


def one_line(text: object) -> str:
    """A message of the cluster without line ends."""
    return " ".join(str(text or "").split())


def condition(pod: Fields, kind: str) -> Fields:
    """A condition of the pod; empty if it has none of that type."""
    return next((each for each in status(pod).get("conditions") or () if each.get("type") == kind), _NONE)


def container(pod: Fields, name: str) -> Fields:
    """The status of a container, also of an init container; empty if there is none."""
    found = status(pod)
    each = (*(found.get("initContainerStatuses") or ()), *(found.get("containerStatuses") or ()))
    return next((known for known in each if known.get("name") == name), _NONE)


def terminated(pod: Fields, name: str) -> Fields:
    """How a container ended; empty if it has not, or never began."""
    return (container(pod, name).get("state") or _NONE).get("terminated") or _NONE


def waits(pod: Fields, name: str) -> Fields:
    """Why a container does not run; empty if it does, or nothing is known."""
    return (container(pod, name).get("state") or _NONE).get("waiting") or _NONE


def runs(pod: Fields, name: str) -> bool:
    """Whether a container runs."""
    return "running" in (container(pod, name).get("state") or _NONE)


def seconds(time: object) -> float | None:
    """A time of the API in seconds since 1970; None if there is none."""
    try:
        return datetime.fromisoformat(str(time).replace("Z", "+00:00")).timestamp() if time else None
    except ValueError:
        return None


def asked_to_go(pod: Fields) -> float | None:
    """When somebody deleted it, in seconds since 1970; None if nobody has. The API tells when its grace ends."""
    meta = pod.get("metadata") or _NONE
    ends = seconds(meta.get("deletionTimestamp"))
    return None if ends is None else ends - float(meta.get("deletionGracePeriodSeconds") or 0)


def is_only_kept(pod: Fields) -> bool:
    """Whether it was deleted, nothing of it runs or ever will, and only finalizers keep its object, as Kueue's do."""
    meta = pod.get("metadata") or _NONE
    if not meta.get("deletionTimestamp") or not meta.get("finalizers"):
        return False
    return not node(pod) or meta.get("deletionGracePeriodSeconds") == 0 or phase(pod) in ("Succeeded", "Failed")


def last_event(events: Sequence[Fields], *reasons: str) -> Fields:
    """The youngest event with one of these reasons; empty if there is none."""
    found = [event for event in events if event.get("reason") in reasons]
    return max(found, key=_time, default=_NONE)


def _time(event: Fields) -> float:
    series = event.get("series") or _NONE
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max((found for time in times if (found := seconds(time)) is not None), default=0.0)
