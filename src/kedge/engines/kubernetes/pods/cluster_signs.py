"""Ends that the cluster brings about: from a pod's conditions (1.20 does not know them), its reason, and events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kedge.engines.cluster.base import EndKind, GoneKind
from kedge.engines.kubernetes.pods import evictions, fields, kinds, kueue_workloads
from kedge.engines.kubernetes.pods.containers import PodEnd
from kedge.engines.kubernetes.pods.fields import Fields

_DISRUPTED, _KUEUE = "DisruptionTarget", "TerminationTarget"
_BY_KUBELET = "TerminationByKubelet"
_DISRUPTIONS = {
    "PreemptionByScheduler": (GoneKind.PREEMPTED, "for a pod of higher priority"),
    "PreemptionByKubeScheduler": (GoneKind.PREEMPTED, "for a pod of higher priority"),  # 1.25
    "EvictionByEvictionAPI": (GoneKind.EVICTED, "through the eviction API, as when a node is drained"),
    "DeletionByTaintManager": (GoneKind.NODE_LOST, "the cluster removed the pod because of the node's taint: it does "
                                                  "not answer, or is taken out of service"),
    "DeletionByPodGC": (GoneKind.NODE_LOST, "the cluster removed the pod of a node that is gone or does not answer"),
}  # fmt: skip
_SHUTDOWN = ("NodeShutdown", "Shutdown", "Terminated")
# Reasons of the kubelet when it does not admit a pod.
_FULL = "OutOf"
_LABELS = ("NodeAffinity", "MatchNodeSelector", "NodeSelectorMismatching", "NodeName", "Taint", "TaintToleration")
_SETTINGS = ("SysctlForbidden", "AppArmor", "Forbidden", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch")
_POD = "Pod "  # the kubelet of older versions puts it before its message


class ClusterSign(NamedTuple):
    """What the cluster did, and when, in seconds since 1970 (None: not known)."""

    end: PodEnd
    at: float | None = None


def of_conditions(pod: Fields) -> ClusterSign | None:
    """By the scheduler, the eviction API, controllers, and Kueue. What the kubelet did is told by `of_status`."""
    for kind, read in ((_DISRUPTED, _disruption), (_KUEUE, kueue_workloads.ended)):
        found = fields.condition(pod, kind)
        if found.get("status") == "True" and (end := read(found)):
            return ClusterSign(end, fields.seconds(found.get("lastTransitionTime")))
    return None


def _disruption(condition: Fields) -> PodEnd | None:
    reason, said = str(condition.get("reason") or ""), fields.one_line(condition.get("message"))
    if reason == _BY_KUBELET:
        return None
    kind, text = _DISRUPTIONS.get(reason, (GoneKind.EVICTED, reason))
    return PodEnd(kind, f"{text} ({said})" if said else text)


def of_status(pod: Fields) -> ClusterSign | None:
    """By the kubelet: what it evicted, preempted, or did not admit."""
    reason, said = fields.reason(pod), fields.message(pod).removeprefix(_POD)
    if not reason:
        return None
    text = f"{reason}: {said}" if said else reason
    if reason == "Evicted":
        kind, meaning = evictions.of_message(said)
        return ClusterSign(PodEnd(kind, said, kind=meaning))
    if reason == "Preempting":
        return ClusterSign(PodEnd(GoneKind.PREEMPTED, f"by its node, for a critical pod: {said}"))
    if reason in _SHUTDOWN:
        return ClusterSign(PodEnd(GoneKind.EVICTED, f"its node was shut down ({said or reason})"))
    if reason == "DeadlineExceeded":
        return ClusterSign(PodEnd(GoneKind.OUT_OF_TIME, said))
    if reason == "NodeLost":
        return ClusterSign(PodEnd(GoneKind.NODE_LOST, said))
    return ClusterSign(PodEnd(GoneKind.NOT_STARTED, text, kind=_admission(reason, said)))


def _admission(reason: str, said: str) -> EndKind:
    if reason.startswith(_FULL):
        return kinds.NODE_FULL
    if reason in _SETTINGS:
        return kinds.NODE_SETTING
    if reason in _LABELS:
        return kinds.NODE_FORBIDS
    return kinds.NODE_ERROR


def of_events(pod: Fields, events: Sequence[Fields]) -> ClusterSign | None:
    """Who deleted a pod, where only events tell, for want of conditions."""
    readers: tuple[tuple[str, Callable[[str], PodEnd | None]], ...] = (
        ("Preempted", lambda said: PodEnd(GoneKind.PREEMPTED, said)),
        ("TaintManagerEviction", _by_taint),
    )
    for reason, read in readers:
        found = fields.last_event(events, reason)
        if found and (end := read(fields.one_line(found.get("message")))):
            return ClusterSign(end, fields.asked_to_go(pod))
    return None


def _by_taint(said: str) -> PodEnd | None:
    if not said.startswith("Marking for deletion"):  # or it takes that back
        return None
    kind, text = _DISRUPTIONS["DeletionByTaintManager"]
    return PodEnd(kind, text)
