"""Creates and deletes pods in worker threads, up to 24 at a time, and reports the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.in_driver.attempt_pod import PodKey, key_of
from kedge.engines.kubernetes.objects import scheduling

_AT_ONCE = 24  # more only wait for each other: one processor makes about 250 requests a second
_CONFLICT = 409
KUEUE = "kueue.x-k8s.io"


class PodCreated(NamedTuple):
    """The answer to a creation: the pod, which may have been there already, or the error."""

    key: PodKey
    pod: dict[str, Any] | None
    error: ApiError | None = None


class PodDeletion(NamedTuple):
    """The answer to a deletion. `was_there`: the pod was."""

    key: PodKey
    was_there: bool
    error: ApiError | None = None


class PodLookedUp(NamedTuple):
    """How a pod is now; None: there is none with this uid."""

    key: PodKey
    pod: dict[str, Any] | None


class PodEvents(NamedTuple):
    """The events about a pod; none if they cannot be had. `last`: they were asked for after its end."""

    key: PodKey
    events: list[dict[str, Any]]
    last: bool


class PodWorkload(NamedTuple):
    """What Kueue makes of a pod or its group; None: nothing, or it cannot be had."""

    key: PodKey
    workload: dict[str, Any] | None


class QuotaReleased(NamedTuple):
    """Kueue was asked to take back what it gave to a job attempt."""

    attempt: int


PodAnswer = PodCreated | PodDeletion | PodLookedUp | PodEvents | PodWorkload | QuotaReleased


class PodCalls:
    """`news` is called in the threads. `owner` is the uid of the anchor: pods of another one are not this run's."""

    def __init__(self, api: KubernetesApi, owner: str, news: Callable[[PodAnswer], object]) -> None:
        self._api, self._owner, self._news = api, owner, news
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="pods")
        self._secrets: dict[int, Mapping[str, Any]] = {}  # that are there as they are here
        self._lock = threading.Lock()

    def create(self, key: PodKey, pod: Mapping[str, Any], secret: Mapping[str, Any]) -> None:
        """Create a pod, after the Secret that it needs."""
        self._pool.submit(self._create, key, pod, secret)

    def _create(self, key: PodKey, pod: Mapping[str, Any], secret: Mapping[str, Any]) -> None:
        try:
            self._make_secret(key.attempt, secret)
            self._news(PodCreated(key, self._created(key, pod)))
        except ApiError as error:
            self._news(PodCreated(key, None, error))
        except Exception as error:  # a bug: the task must not wait for ever
            self._news(PodCreated(key, None, ApiError(400, "Bug", f"kedge failed: {error!r}")))

    def _created(self, key: PodKey, pod: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._api.create(pod)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            found = self._api.get("Pod", str(pod["metadata"]["name"]))
            if found is None or not self._is_ours(found, key):
                raise
            return found

    def _is_ours(self, found: Mapping[str, Any], key: PodKey) -> bool:
        owners = found["metadata"].get("ownerReferences", ())
        return key_of(found) == key and any(owner.get("uid") == self._owner for owner in owners)

    def _make_secret(self, attempt: int, secret: Mapping[str, Any]) -> None:
        with self._lock:
            before = self._secrets.get(attempt)
            if before is secret or before == secret:
                return
            try:
                self._api.create(secret)
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise
                self._api.patch("Secret", str(secret["metadata"]["name"]), {"data": secret["data"]})
            self._secrets[attempt] = secret

    def delete(self, key: PodKey, name: str, uid: str, grace_sec: int) -> None:
        """Delete a pod, and no other one of its name."""
        self._pool.submit(self._delete, key, name, uid, grace_sec)

    def _delete(self, key: PodKey, name: str, uid: str, grace_sec: int) -> None:
        try:
            self._news(PodDeletion(key, self._api.delete("Pod", name, grace_sec=grace_sec, uid=uid)))
        except ApiError as error:
            self._news(PodDeletion(key, True, error))

    def look_up(self, key: PodKey, name: str, uid: str) -> None:
        """Ask for a pod that was not in a list: it may be younger."""
        self._pool.submit(self._look_up, key, name, uid)

    def _look_up(self, key: PodKey, name: str, uid: str) -> None:
        try:
            found = self._api.get("Pod", name)
        except ApiError:
            return  # it is asked again with the next list
        self._news(PodLookedUp(key, found if found and found["metadata"]["uid"] == uid else None))

    def ask_events(self, key: PodKey, name: str, uid: str, *, last: bool) -> None:
        """Ask what the cluster says about a pod."""
        self._pool.submit(self._ask_events, key, name, uid, last)

    def _ask_events(self, key: PodKey, name: str, uid: str, last: bool) -> None:
        found: list[dict[str, Any]] = []
        with suppress(ApiError):
            found = self._api.events_of(uid, name)
        self._news(PodEvents(key, found, last))

    def ask_workload(self, key: PodKey, group: str | None, uid: str) -> None:
        """Ask for the Workload of a group, or of a single pod."""
        self._pool.submit(self._ask_workload, key, group, uid)

    def _ask_workload(self, key: PodKey, group: str | None, uid: str) -> None:
        found: dict[str, Any] | None = None
        with suppress(ApiError):
            self._api.prefer_served(KUEUE)
            if group:
                found = self._api.get("Workload", group)
            else:
                found = next(iter(self._api.list("Workload", {scheduling.JOB_UID: uid})[0]), None)
        self._news(PodWorkload(key, found))

    def release(self, attempt: int, group: str) -> None:
        """Delete the Workload of a job attempt whose pods have all ended. Kueue would find out for itself, but not at
        once, and not of pods that never had a node."""
        self._pool.submit(self._release, attempt, group)

    def _release(self, attempt: int, group: str) -> None:
        with suppress(ApiError):
            self._api.prefer_served(KUEUE)
            self._api.delete("Workload", group)
        self._news(QuotaReleased(attempt))

    def close(self) -> None:
        """Nothing more is begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
