"""Checks the pods of a run's tasks: whether they are over, why the others do not run, and for how long."""

from __future__ import annotations

import math
import time

from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.kubernetes.in_driver.attempt_pod import AttemptPod, PodStage
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.engines.kubernetes.pods import fields, pod_end, waiting
from kedge.engines.kubernetes.pods.containers import PodEnd
from kedge.engines.kubernetes.pods.pod_end import Asked
from kedge.engines.kubernetes.pods.waiting import WaitLimit
from kedge.spec.units import seconds

_QUEUE = "kueue.x-k8s.io/"
_SOON_SEC, _AGAIN_SEC = 5.0, 15.0  # until the events of a pod that does not begin are asked for


class RunPodChecks:
    """The PodChecks of a driver, with the waiting times that its options allow."""

    def __init__(self, options: KubernetesOptions) -> None:
        self._limits = {
            WaitLimit.AT_ONCE: 0.0,
            WaitLimit.IMAGE_WAIT: seconds(options.image_wait),
            WaitLimit.PENDING: seconds(options.pending),
        }

    def gone(self, pod: AttemptPod, now: float) -> Gone | None:
        """Why nothing of a task attempt runs any more, or ever will; None if it does or may. While its task's container
        has ended and its agent still sends what is left, only what no agent knows is said."""
        if pod.pod is None:
            return _gone(pod, PodEnd(GoneKind.DELETED)) if pod.removed else None
        end = pod_end.of_pod(pod.pod, _asked(pod), pod.events, gone=_has_gone(pod))
        if end is None:
            return self._waited(pod, now)
        by_signal = end.code is not None and end.code < 0
        if pod.stage != PodStage.OVER and end.reason == GoneKind.ENDED and not by_signal:
            return None
        if pod.stage != PodStage.OVER and end.reason == GoneKind.DELETED and not pod.has_last_events:
            return None  # by whom is asked for first
        return _gone(pod, end)

    def _waited(self, pod: AttemptPod, now: float) -> Gone | None:
        """It does not run; whether it has waited for too long."""
        assert pod.pod
        wait = waiting.of_pod(pod.pod, pod.events, pod.wait, queue_said=pod.queue_said)
        if not (wait and pod.wait and wait.deadline == pod.wait.deadline):
            pod.wait_since = now - (_waited_sec(pod.pod) if pod.was_found else 0.0)
        pod.was_found = False
        pod.wait = wait
        if wait is None or wait.end is None or now - pod.wait_since < self._limits.get(wait.deadline, math.inf):
            return None
        return _gone(pod, wait.end)

    def wants_events(self, pod: AttemptPod, now: float) -> bool:
        """Whether the events of a pod may say more than the pod."""
        if pod.pod is None or pod.told:
            return False
        if self.is_final(pod):
            return not pod.has_last_events and pod_end.needs_events(pod.pod, _asked(pod), gone=_has_gone(pod))
        begins = pod.wait is not None and fields.node(pod.pod) != ""
        return begins and now - pod.asked > _SOON_SEC and now - pod.events_asked > _AGAIN_SEC

    def is_final(self, pod: AttemptPod) -> bool:
        """Whether events that are asked for now tell how it has ended: it is over, or its container has ended because
        somebody deleted it. Its agent waits then until the end is recorded, so the pod would not be over before."""
        if pod.stage == PodStage.OVER:
            return True
        return pod.pod is not None and pod_end.needs_events(pod.pod, _asked(pod), gone=_has_gone(pod))

    def pending(self, pod: AttemptPod) -> str:
        """Why its container does not run yet; empty if it does."""
        return pod.wait.words if pod.wait else ""


def _has_gone(pod: AttemptPod) -> bool:
    """Whether nothing of the task runs any more, although a container of its pod may. Where somebody deletes a pod, the
    kubelet of 1.20 says only at the very end that its task's container has ended."""
    is_deleted = pod.pod is not None and fields.asked_to_go(pod.pod) is not None
    return pod.removed or (pod.supervisor_ended and is_deleted and not pod.deleting)


def _waited_sec(pod: fields.Fields) -> float:
    """For how long a pod has been without a node, or on its node without a container that runs; 0 where its time in a
    queue is not known."""
    if any(key.startswith(_QUEUE) for key in pod["metadata"].get("labels") or ()):
        return 0.0
    began = fields.condition(pod, "PodScheduled").get("lastTransitionTime")
    since = fields.seconds(began or pod["metadata"].get("creationTimestamp"))
    return max(0.0, time.time() - since) if since else 0.0


def _asked(pod: AttemptPod) -> Asked:
    return Asked(deleted=pod.deleting, forced=pod.forced, waited_sec=round(pod.hung_sec))


def _gone(pod: AttemptPod, end: PodEnd) -> Gone:
    found = pod_end.gone(end, pod.key.task, pod.key.attempt)
    return found._replace(task_attempt=pod.key.task_attempt)
