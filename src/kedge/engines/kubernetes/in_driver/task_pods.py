"""The tasks of a run as pods: one for each task attempt."""

from __future__ import annotations

import math
import os
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from kedge.contract import duration_text
from kedge.engines.base import Task, TaskAttempt
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.kubernetes import refusals
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.in_driver.attempt_pod import AttemptPod, PodKey, PodStage, key_of
from kedge.engines.kubernetes.in_driver.pod_calls import (
    PodAnswer,
    PodCalls,
    PodCreated,
    PodDeletion,
    PodEvents,
    PodLookedUp,
    PodWorkload,
    QuotaReleased,
)
from kedge.engines.kubernetes.in_driver.pod_queue import PodQueue, QueueNames
from kedge.engines.kubernetes.in_driver.pod_watch import DELETED, PodSeen, PodsListed, PodWatch
from kedge.engines.kubernetes.pods import fields, kinds
from kedge.errors import CannotRun

_LOOK_SEC = 2.0  # between looks at pods that wait, or are being deleted
_ASKS = 20  # requests for the events of pods that wait, between two looks
_AGAIN_SEC, _LONGEST_SEC = 1.0, 30.0  # until a call that failed is tried again
_LEAVE_SEC = 10.0  # for a pod whose agent was told to finish
_CLOSE_SEC = 20.0
_FINAL_REFUSALS = (400, 404, 409, 413, 422)  # of a creation: the same is refused again
_QUOTA = "exceeded quota"


class PodPlans(Protocol):
    """Makes the objects of tasks."""

    def name(self, key: PodKey) -> str:
        """The name of the pod of a task attempt."""

    def pod(self, key: PodKey) -> dict[str, Any]:
        """The pod of a task attempt."""

    def secret(self, attempt: int, tokens: Mapping[Task, str]) -> Mapping[str, Any]:
        """The Secret with the tokens of a job attempt."""


class PodChecks(Protocol):
    """Whether pods are over, and why those that do not run wait. Pure."""

    def gone(self, pod: AttemptPod, now: float) -> Gone | None:
        """Why nothing of a task attempt runs any more, or will ever run; None if it does or may."""

    def wants_events(self, pod: AttemptPod, now: float) -> bool:
        """Whether the events about a pod may say more."""

    def is_final(self, pod: AttemptPod) -> bool:
        """Whether events that are asked for now tell how it has ended."""

    def pending(self, pod: AttemptPod) -> str:
        """Why its container does not run yet; empty if it does."""


class PodRecord(Protocol):
    """Remembers, also for other drivers, which pods were created."""

    def was_created(self, name: str) -> bool: ...

    def created(self, name: str) -> None: ...


class TaskPods:
    """A Cluster. Pods are created and deleted by `poll`, after what was decided before is recorded. `labels` select the
    pods of the run's tasks, `lost_sec` is after how long a deletion is forced (None: never), `say` tells the user.
    `queue_names` are those of the queue that the pods wait in, if there is one."""

    relaunches = True

    def __init__(
        self, api: KubernetesApi, labels: Mapping[str, str], owner: str, plans: PodPlans, checks: PodChecks,
        record: PodRecord, say: Callable[[str], None], lost_sec: float | None,
        queue_names: QueueNames | None = None,
    ) -> None:  # fmt: skip
        self._api, self._labels, self._plans, self._checks, self._record = api, labels, plans, checks, record
        self._say, self._lost_sec = say, lost_sec
        self._news: queue.SimpleQueue[PodAnswer | PodsListed | PodSeen] = queue.SimpleQueue()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._calls = PodCalls(api, owner, self._hear)
        self.queue = PodQueue(queue_names, self._calls, say)
        self._ending: set[int] = set()  # job attempts whose last pods are ending
        self._ended: set[int] = set()
        self._releasing: set[int] = set()  # of which Kueue was asked to take back what they had
        self._watch = PodWatch(api, labels, self._hear)
        self._watching = False
        self._pods: dict[PodKey, AttemptPod] = {}
        self._of_task: dict[Task, list[AttemptPod]] = {}
        self._tokens: dict[int, dict[Task, str]] = {}
        self._secrets: dict[int, Mapping[str, Any]] = {}  # with the tokens of job attempts
        self._waiting: dict[PodKey, AttemptPod] = {}  # to be created
        self._gone: list[Gone] = []
        self._look_at = math.inf
        self._asks_left, self._ask_again_at = _ASKS, 0.0

    def _hear(self, news: PodAnswer | PodsListed | PodSeen) -> None:
        """In any thread."""
        self._news.put(news)
        with suppress(OSError):  # it is closed
            os.eventfd_write(self._event, 1)

    # What the backend calls.

    def launch(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        self._begin(attempt, tokens)
        for task in self._tokens[attempt]:
            self._add(PodKey(task, attempt, 0))

    def adopt(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        self._begin(attempt, tokens)
        for pod in self._listed():
            if (key := key_of(pod)) and key not in self._pods:
                found = self._known(key, pod)
                if key.attempt != attempt:
                    self._end_at(found, time.monotonic())

    def _begin(self, attempt: int, tokens: Mapping[str, Sequence[str]]) -> None:
        self.queue.begin(attempt)
        self._tokens[attempt] = {
            Task(role, index): token for role, each in tokens.items() for index, token in enumerate(each)
        }
        self._secrets.pop(attempt, None)
        if not self._watching:
            self._watching = True
            self._watch.start()

    def _listed(self) -> list[dict[str, Any]]:
        """The pods that there are. Waits for an answer: nothing can be decided before."""
        wait = _AGAIN_SEC
        while True:
            try:
                return self._api.list("Pod", self._labels)[0]
            except ApiError:
                time.sleep(wait)
                wait = min(_LONGEST_SEC, 2 * wait)

    def relaunch(self, task: Task, attempt: int, task_attempt: int, token: str) -> None:
        key = PodKey(task, attempt, task_attempt)
        if self._tokens[attempt].get(task) != token:
            self._tokens[attempt][task] = token
            self._secrets.pop(attempt, None)
        if key in self._pods:
            return
        for old in self._of_task.get(task, ()):
            self._end_at(old, time.monotonic() + _LEAVE_SEC)
        name = self._plans.name(key)
        if self._record.was_created(name):
            self._tell(self._made(key, name), Gone(task, attempt, GoneKind.DELETED, f"the pod {name}"))
        else:
            self._add(key)

    def supervisor_ended(self, attempt: TaskAttempt) -> None:
        if pod := self._pods.get(PodKey(*attempt)):
            pod.supervisor_ended = True
            self._look(pod, time.monotonic())

    def whereabouts(self, task: Task) -> str:
        pods = self._of_task.get(task)
        if not pods:
            return ""
        pod = pods[-1]
        if pod.stage < PodStage.THERE:
            return f"pod {pod.name} could not be created: {pod.trouble}" if pod.trouble else "it has no pod yet"
        node = str(fields.node(pod.pod)) if pod.pod else ""
        said = self._checks.pending(pod)
        where = f"pod {pod.name}" + (f" on node {node}" if node and f"node {node}" not in said else "")
        return f"{where}: {said}" if said else where

    def fileno(self) -> int:
        return self._event

    @property
    def due(self) -> float:
        if self._gone:
            return 0.0
        return min([self._look_at, *(pod.create_at for pod in self._waiting.values())])

    def poll(self) -> list[Gone]:
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        now = time.monotonic()
        with suppress(queue.Empty):
            while True:
                self._take(self._news.get_nowait(), now)
        if self._look_at <= now:
            self._look_at = math.inf
            due = [pod for pod in self._pods.values() if pod.is_on_its_way]
            for pod in sorted(due, key=lambda pod: pod.events_asked):  # who was not asked about comes first
                self._look(pod, now)
            self.queue.look(now)
        self._create(now)
        self._release_quota()
        gone, self._gone = self._gone, []
        return gone

    def kill(self, task: Task) -> None:
        for pod in self._of_task.get(task, ()):
            self._end_at(pod, time.monotonic())

    def end(self, attempt: int) -> None:
        for pod in self._pods.values():
            if pod.key.attempt == attempt:
                self._end_at(pod, time.monotonic(), finished=True)
        if attempt not in self._ended:
            self._ended.add(attempt)
            self._ending.add(attempt)
        self._gone += self.poll()  # at once: nobody may come to do it for some time

    def close(self) -> None:
        """Ask for the end of all pods. Only `leave` waits for it: nobody else need, except a queue, which takes back
        what they had when they have gone."""
        for attempt in list(self._tokens):
            self.end(attempt)
        if self.queue.has_names:
            self._wait()

    def leave(self) -> None:
        """Wait, for a while, until all pods have gone, after `close`. Nothing may be called after it."""
        self._wait()
        if self._watching:
            self._watch.stop()
        self._calls.close()
        os.close(self._event)

    def _wait(self) -> None:
        end = time.monotonic() + _CLOSE_SEC
        while self._is_ending() and time.monotonic() < end:
            with suppress(queue.Empty):
                self._take(self._news.get(timeout=0.1), time.monotonic())
            self.poll()

    def _is_ending(self) -> bool:
        return bool(self._ending or self._releasing) or any(not pod.removed for pod in self._pods.values())

    def _release_quota(self) -> None:
        """What a queue has given to job attempts of which nothing runs any more."""
        for attempt in [*self._ending]:
            if all(pod.stage == PodStage.OVER for pod in self._pods.values() if pod.key.attempt == attempt):
                self._ending.discard(attempt)
                if self.queue.ended(attempt):
                    self._releasing.add(attempt)

    # What is known of pods.

    def _made(self, key: PodKey, name: str) -> AttemptPod:
        pod = AttemptPod(key, name)
        self._pods[key] = pod
        self._of_task.setdefault(key.task, []).append(pod)
        return pod

    def _add(self, key: PodKey) -> None:
        """A pod that is to be created."""
        self._waiting[key] = self._made(key, self._plans.name(key))

    def _known(self, key: PodKey, pod: Mapping[str, Any]) -> AttemptPod:
        """A pod that is there."""
        found = self._made(key, str(pod["metadata"]["name"]))
        found.asked, found.was_found = time.monotonic(), True
        self._see(found, pod, found.asked)
        return found

    def _see(self, pod: AttemptPod, seen: Mapping[str, Any], now: float) -> None:
        if pod.stage < PodStage.THERE:
            self._record.created(pod.name)
        pod.sees(seen, now)
        if fields.is_only_kept(seen):
            pod.stage, pod.removed = PodStage.OVER, True
        self._look(pod, now)

    def _take(self, news: PodAnswer | PodsListed | PodSeen, now: float) -> None:
        if isinstance(news, PodsListed):
            self._take_list(news, now)
        elif isinstance(news, PodSeen):
            key = key_of(news.pod)
            if key and (pod := self._pods.get(key)) and pod.uid in ("", news.pod["metadata"]["uid"]):
                if news.change == DELETED:
                    pod.pod = news.pod
                    self._has_gone(pod, now)
                else:
                    self._see(pod, news.pod, now)
        elif isinstance(news, PodCreated):
            self._created(self._pods[news.key], news, now)
        elif isinstance(news, PodDeletion):
            self._deleted(self._pods[news.key], news, now)
        elif isinstance(news, PodLookedUp) and news.pod is None:
            self._has_gone(self._pods[news.key], now)
        elif isinstance(news, PodEvents):
            pod = self._pods[news.key]
            pod.events, pod.has_last_events = news.events, pod.has_last_events or news.last
            self._look(pod, now)
        elif isinstance(news, PodWorkload):
            for pod in self.queue.take(news):
                self._look(pod, now)
        elif isinstance(news, QuotaReleased):
            self._releasing.discard(news.attempt)

    def _take_list(self, news: PodsListed, now: float) -> None:
        seen = {pod["metadata"]["uid"] for pod in news.pods}
        for found in news.pods:
            self._take(PodSeen("ADDED", found), now)
        for pod in self._pods.values():
            if pod.uid and not pod.removed and pod.uid not in seen:
                self._calls.look_up(pod.key, pod.name, pod.uid)

    def _created(self, pod: AttemptPod, news: PodCreated, now: float) -> None:
        if news.pod is not None:
            pod.trouble = ""
            if pod.stage == PodStage.CREATING:
                self._see(pod, news.pod, now)
        elif pod.stage == PodStage.CREATING and news.error:
            pod.trouble = refusals.explained(news.error, "pod", self._api)
            if news.error.status in _FINAL_REFUSALS or (news.error.status == 403 and _QUOTA not in str(news.error)):
                refused = self._gone_of(pod, GoneKind.NOT_STARTED, pod.trouble)
                self._tell(pod, refused._replace(kind=kinds.of_refusal(str(news.error))))
                return
            pod.stage, pod.tries = PodStage.WAITS, pod.tries + 1
            pod.create_at = now + min(_LONGEST_SEC, _AGAIN_SEC * 2 ** min(pod.tries, 10))
            self._waiting[pod.key] = pod

    def _deleted(self, pod: AttemptPod, news: PodDeletion, now: float) -> None:
        if news.error:
            pod.deleting = pod.forced = False
            self._end_at(pod, now + _AGAIN_SEC, finished=True)
        elif not news.was_there:
            self._has_gone(pod, now)

    def _has_gone(self, pod: AttemptPod, now: float) -> None:
        """Its object is not there any more."""
        pod.removed = True
        if pod.stage != PodStage.OVER:
            pod.stage = PodStage.OVER
            self._look(pod, now)

    def _gone_of(self, pod: AttemptPod, kind: GoneKind, text: str) -> Gone:
        return Gone(pod.key.task, pod.key.attempt, kind, text, None, pod.key.task_attempt)

    def _tell(self, pod: AttemptPod, gone: Gone) -> None:
        if pod.stage < PodStage.THERE:
            pod.removed = True
        pod.stage = PodStage.OVER
        if not pod.told:
            pod.told = True
            self._gone.append(gone._replace(task_attempt=pod.key.task_attempt))

    # What is done.

    def _look(self, pod: AttemptPod, now: float) -> None:
        """See whether a pod is over, and do what is due."""
        self.queue.sees(pod, now)
        if pod.stage >= PodStage.THERE and not pod.told and not self._asks_events(pod, now):
            self._judge(pod, now)
        if pod.is_on_its_way:
            self._end_due(pod, now)
            self._look_at = min(self._look_at, now + _LOOK_SEC)

    def _asks_events(self, pod: AttemptPod, now: float) -> bool:
        """Whether nothing is known before the events about a pod are."""
        final = self._checks.is_final(pod)
        wants = self._checks.wants_events(pod, now) and not (final and pod.asks_last)
        if wants and (final or self._may_ask(now)):
            pod.events_asked, pod.asks_last = now, final
            self._calls.ask_events(pod.key, pod.name, pod.uid, last=pod.asks_last)
        return pod.asks_last and not pod.has_last_events

    def _may_ask(self, now: float) -> bool:
        """Whether one more pod that waits may be asked about: for its events, the API server reads all of them."""
        if now >= self._ask_again_at:
            self._asks_left, self._ask_again_at = _ASKS, now + _LOOK_SEC
        self._asks_left -= 1
        return self._asks_left >= 0

    def _judge(self, pod: AttemptPod, now: float) -> None:
        """Tell the backend if a pod is over, or will never run."""
        gone = self._checks.gone(pod, now)
        if pod.stage == PodStage.OVER:
            self._tell(pod, gone or self._gone_of(pod, GoneKind.ENDED, ""))
        elif gone:
            pod.told = True
            self._gone.append(gone)
            ended = pod.supervisor_ended or (pod.pod and fields.terminated(pod.pod, fields.APP))
            if not ended:  # else its agent sends what is left
                self._end_at(pod, now)

    def _end_at(self, pod: AttemptPod, when: float, *, finished: bool = False) -> None:
        """It shall be deleted then, if it is not over before, or even so."""
        if pod.stage == PodStage.WAITS:
            del self._waiting[pod.key]
            pod.stage, pod.removed = PodStage.OVER, True
        elif (finished or pod.stage != PodStage.OVER) and not pod.removed and not pod.deleting:
            pod.delete_at = min(pod.delete_at, when) if pod.delete_at is not None else when
            self._look_at = min(self._look_at, pod.delete_at)

    def _end_due(self, pod: AttemptPod, now: float) -> None:
        if pod.delete_at is not None and pod.delete_at <= now and not pod.deleting and pod.uid:
            pod.deleting = True
            self._calls.delete(pod.key, pod.name, pod.uid, pod.grace_sec)
        if not pod.forced and pod.pod and pod.terminating is not None and now >= pod.given_up_at(self._lost_sec):
            pod.forced, pod.hung_sec = True, now - pod.terminating
            node = pod.pod.get("spec", {}).get("nodeName", "")
            waited = duration_text(round(pod.hung_sec))
            self._say(
                f"{pod.key.task}: its pod {pod.name} was being deleted for {waited} and node {node} has not confirmed "
                "its end: the pod was removed by force, so that what ran there may still run"
            )
            self._calls.delete(pod.key, pod.name, pod.uid, 0)

    def _create(self, now: float) -> None:
        """Create the pods that may be created now: a task has one at a time."""
        for pod in [pod for pod in self._waiting.values() if not self._must_wait(pod, now)]:
            del self._waiting[pod.key]
            try:
                secret, made = self._secret(pod.key.attempt), self._plans.pod(pod.key)
            except CannotRun as error:
                self._tell(pod, self._gone_of(pod, GoneKind.NOT_STARTED, str(error)))
                continue
            pod.stage, pod.asked = PodStage.CREATING, now
            self._calls.create(pod.key, made, secret)

    def _secret(self, attempt: int) -> Mapping[str, Any]:
        """The Secret with the present tokens of a job attempt: one object until they change."""
        if attempt not in self._secrets:
            self._secrets[attempt] = self._plans.secret(attempt, self._tokens[attempt])
        return self._secrets[attempt]

    def _must_wait(self, pod: AttemptPod, now: float) -> bool:
        if pod.create_at > now and not pod.waits_for_other:
            return True
        others = (each for each in self._of_task[pod.key.task] if each is not pod)
        pod.waits_for_other = any(each.stage in (PodStage.CREATING, PodStage.THERE) for each in others)
        if pod.waits_for_other:
            pod.create_at = now + _AGAIN_SEC  # its end is news, and looked at before that
        return pod.waits_for_other
