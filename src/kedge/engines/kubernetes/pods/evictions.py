"""What the kubelet says when it evicts a pod: whose fault it was.

Source of the messages: `pkg/kubelet/eviction/helpers.go` of Kubernetes; those for limits of the pod itself are the same
from 1.20 on."""

from __future__ import annotations

import re

from kedge.engines.cluster.base import EndKind, GoneKind
from kedge.engines.kubernetes.pods import kinds

_OWN_LIMIT = re.compile(
    r"exceeds the total limit of containers|exceeded its local ephemeral storage limit|Usage of EmptyDir volume"
)
_SHARED_MEMORY = re.compile(r'Usage of EmptyDir volume "dshm"')
_MEMORY = re.compile(r"low on resource: (?:\[?memory)|MemoryPressure")


def of_message(message: str) -> tuple[GoneKind, EndKind | None]:
    """What an eviction with this message is; without an EndKind it is one like any other."""
    if _SHARED_MEMORY.search(message):
        return GoneKind.EVICTED, kinds.SHARED_MEMORY
    if _OWN_LIMIT.search(message):
        return GoneKind.EVICTED, kinds.OWN_DISK
    if _MEMORY.search(message):
        return GoneKind.EVICTED, kinds.LOW_MEMORY
    return GoneKind.EVICTED, None
