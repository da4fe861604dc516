"""What is known of the pod of one task attempt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kedge.engines.base import Task
from kedge.engines.kubernetes.objects import labels
from kedge.engines.kubernetes.pods.pod_end import is_over
from kedge.engines.kubernetes.pods.waiting import PodWait
from kedge.quick_dataclasses import dataclass


class PodKey(NamedTuple):
    """A task attempt."""

    task: Task
    attempt: int
    task_attempt: int


class PodStage(IntEnum):
    """How far a pod has come."""

    WAITS = 0  # to be created
    CREATING = 1  # the API server was asked, and has not answered
    THERE = 2
    OVER = 3  # nothing of it runs any more


@dataclass(slots=True)
class AttemptPod:
    """Times are from time.monotonic(). `pod` is the object as it was seen last. `asked` is when it was created, or
    found. `create_at` is when it may be created, `tries` how often that has failed, and `trouble` why;
    `waits_for_other`: an earlier pod of the task is not over. `delete_at` is when it is deleted if it is not over, by
    this driver, with `grace_sec`, and `deleting` whether it was.
    `supervisor_ended`: its agent says so, and the node may not yet.
    `terminating` is since when it is being deleted, by whomever; `hung_sec` for how long its node had not confirmed
    that when the deletion was `forced`. `removed`: its object is not there any more. `told`:
    the backend knows that it is over. `queue_said` is why its queue holds it. `was_found`: an earlier driver has
    created it, and perhaps has seen it wait."""

    key: PodKey
    name: str
    stage: PodStage = PodStage.WAITS
    uid: str = ""
    pod: Mapping[str, Any] | None = None
    asked: float = 0.0
    create_at: float = 0.0
    waits_for_other: bool = False
    tries: int = 0
    trouble: str = ""
    delete_at: float | None = None
    grace_sec: int = 1
    deleting: bool = False
    forced: bool = False
    terminating: float | None = None
    removed: bool = False
    told: bool = False
    supervisor_ended: bool = False
    hung_sec: float = 0.0
    queue_said: str = ""
    wait: PodWait | None = None
    was_found: bool = False
    wait_since: float = 0.0
    events: Sequence[Mapping[str, Any]] = ()
    events_asked: float = 0.0
    asks_last: bool = False
    has_last_events: bool = False

    @property
    def is_on_its_way(self) -> bool:
        """Whether something becomes due with time: it waits for its containers, or is to go. What runs says itself when
        it changes."""
        goes = self.delete_at is not None or self.terminating is not None
        return not self.removed and (goes or (self.stage == PodStage.THERE and self.wait is not None))

    def given_up_at(self, lost_sec: float | None) -> float:
        """When its deletion is forced unless its node has confirmed it, if that may be after `lost_sec`: not before its
        grace is over, which counts from the same moment. Infinite if it is not to be forced."""
        if self.terminating is None or self.stage == PodStage.OVER or lost_sec is None or self.pod is None:
            return math.inf
        grace_sec = self.pod["metadata"].get("deletionGracePeriodSeconds") or 0
        return self.terminating + float(max(grace_sec, lost_sec))

    def sees(self, pod: Mapping[str, Any], now: float) -> None:
        """It is like this."""
        self.uid, self.pod = pod["metadata"]["uid"], pod
        self.stage = max(self.stage, PodStage.THERE)
        if self.terminating is None and pod["metadata"].get("deletionTimestamp"):
            self.terminating = now
        if is_over(pod):
            self.stage = PodStage.OVER


def key_of(pod: Mapping[str, Any]) -> PodKey | None:
    """The task attempt whose pod it is, as its labels say; None if they are not those of kedge."""
    metadata = pod["metadata"]
    said, texts = metadata.get("labels", {}), metadata.get("annotations", {})
    try:
        task = Task(texts[labels.ROLE], int(said[labels.TASK_INDEX]))
        return PodKey(task, int(said[labels.JOB_ATTEMPT]), int(said[labels.TASK_ATTEMPT]))
    except (KeyError, ValueError):
        return None
