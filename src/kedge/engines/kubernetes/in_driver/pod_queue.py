"""What a queue of the cluster (Kueue) does with the pods of a run: it holds them, says why, and takes them back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kedge.contract import duration_text
from kedge.engines.base import Task
from kedge.engines.kubernetes.in_driver.attempt_pod import AttemptPod, PodKey, PodStage
from kedge.engines.kubernetes.in_driver.pod_calls import PodCalls, PodWorkload
from kedge.engines.kubernetes.objects import scheduling
from kedge.engines.kubernetes.pods import kueue_workloads

_ASK_SEC = 5.0  # between questions about a Workload
_MOST_ASKED = 8  # pods without a group whose Workloads are asked for
_NUMBERS = re.compile(r"\d+")


class QueueNames(NamedTuple):
    """The queue of a run. `group` is what Kueue calls the pods of a job attempt; None if each pod waits for itself."""

    queue: str
    group: Callable[[int], str] | None


class PodQueue:
    """`say` tells the user. `names` is None for a run without a queue, whose pods something else may hold."""

    def __init__(self, names: QueueNames | None, calls: PodCalls, say: Callable[[str], None]) -> None:
        self._names, self._calls, self._say = names, calls, say
        self._attempt = -1
        self._held: dict[PodKey, AttemptPod] = {}
        self._free: set[PodKey] = set()
        self._asked: dict[PodKey, float] = {}
        self._told = ""
        self._since = 0.0
        self._is_managed: bool | None = None

    def begin(self, attempt: int) -> None:
        """Another job attempt begins."""
        self._attempt = attempt
        self._held.clear()
        self._free.clear()
        self._asked.clear()
        self._told = ""

    @property
    def has_names(self) -> bool:
        """Whether the run has chosen a queue."""
        return self._names is not None

    @property
    def holds_all(self) -> bool:
        """Whether it holds pods of the job attempt and has let none go: nothing of the attempt has begun."""
        return bool(self._held) and not self._free

    @property
    def held(self) -> Iterable[Task]:
        """The tasks whose pods it holds."""
        return [key.task for key in self._held]

    def sees(self, pod: AttemptPod, now: float) -> None:
        """A pod is like this now."""
        if pod.pod is None or pod.stage < PodStage.THERE or pod.key.attempt != self._attempt:
            return
        if pod.stage == PodStage.THERE and pod.terminating is None and scheduling.gates(pod.pod):
            if not self._held:
                self._since = now
            self._held[pod.key] = pod
        else:
            was_held = self._held.pop(pod.key, None)
            if pod.stage == PodStage.THERE and pod.terminating is None:
                self._free.add(pod.key)
            if was_held and not self._held and self._free:
                self._admitted(now)
        self._check_managed(pod)

    def _admitted(self, now: float) -> None:
        if self._names and self._told:
            waited = duration_text(round(now - self._since))
            self._say(f"the queue {self._names.queue} has admitted the job after {waited}")
        self._told = ""

    def _check_managed(self, pod: AttemptPod) -> None:
        """A queue without effect is told once."""
        if self._names is None or self._is_managed is not None or pod.pod is None:
            return
        self._is_managed = scheduling.MANAGED in (pod.pod["metadata"].get("labels") or {})
        if not self._is_managed:
            self._say(
                f"Kueue does not manage the pods of this namespace, so the queue {self._names.queue} has no effect: "
                "the site's administrator turns Kueue's integration of pods on"
            )

    def look(self, now: float) -> None:
        """Ask Kueue why it holds what it holds."""
        if self._names is None:
            return
        count = 1 if self._names.group else _MOST_ASKED
        for key, pod in list(self._held.items())[:count]:
            if now - self._asked.get(key, -_ASK_SEC) >= _ASK_SEC:
                self._asked[key] = now
                group = self._names.group(key.attempt) if self._names.group else None
                self._calls.ask_workload(key, group, pod.uid)

    def take(self, news: PodWorkload) -> Iterable[AttemptPod]:
        """What Kueue says of the Workload of a pod. Returns the pods for which that is news."""
        if self._names is None or news.key not in self._held:
            return ()
        said = kueue_workloads.why_waiting(news.workload)
        changed = [*self._held.values()] if self._names.group else [self._held[news.key]]
        for pod in changed:
            pod.queue_said = said
        same = _NUMBERS.sub("", said)
        if said and same != self._told:
            self._told = same
            self._say(f"waiting in queue {self._names.queue}: {said}")
        return changed

    def ended(self, attempt: int) -> bool:
        """Nothing of a job attempt runs any more: give its quota back. Returns whether Kueue was asked to: `take` hears
        of it."""
        if self._names is None or self._names.group is None:
            return False
        self._calls.release(attempt, self._names.group(attempt))
        return True


def names_of(queue: str | None, name: str, gang: bool) -> QueueNames | None:
    """The names of a run with this queue, if it has one."""
    if not queue:
        return None
    return QueueNames(queue, (lambda attempt: scheduling.pod_group(name, attempt)) if gang else None)
