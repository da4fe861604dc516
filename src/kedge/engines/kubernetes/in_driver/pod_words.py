"""What the pods of a run's tasks say about themselves."""

from __future__ import annotations

from typing import Any

from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.kubernetes.in_driver.attempt_pod import AttemptPod, PodStage
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.plan.model import Plan

_OOM = "OOMKilled"


class RunPodWords:
    """It is a PodWords."""

    def __init__(self, plan: Plan, options: KubernetesOptions) -> None:
        self._plan, self._options = plan, options

    def gone(self, pod: AttemptPod, now: float) -> Gone | None:
        """Why nothing of a task attempt runs any more; None if something does."""
        if pod.stage != PodStage.OVER:
            return None
        status: dict[str, Any] = (pod.pod or {}).get("status", {})
        ended = _ended(status)
        kind = GoneKind.OUT_OF_MEMORY if ended.get("reason") == _OOM else GoneKind.ENDED
        if not ended and pod.terminating is not None and not pod.deleting:
            kind = GoneKind.CANCELLED
        if pod.forced:
            kind = GoneKind.NODE_LOST
        text = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
        return Gone(pod.key.task, pod.key.attempt, kind, text, ended.get("exitCode"))

    def pending(self, pod: AttemptPod) -> str:
        """Why its container does not run yet; empty if it does."""
        conditions = (pod.pod or {}).get("status", {}).get("conditions") or ()
        return next((str(each.get("message", "")) for each in conditions if each.get("reason") == "Unschedulable"), "")


def _ended(status: dict[str, Any]) -> dict[str, Any]:
    """How the task's container has ended; empty if it has not."""
    for each in status.get("containerStatuses") or ():
        if each.get("name") == "app":
            found: dict[str, Any] = each.get("state", {}).get("terminated") or {}
            return found
    return {}
