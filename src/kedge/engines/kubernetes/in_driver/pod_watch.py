"""Watches the pods of a run's tasks, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import ApiError, Expired, KubernetesApi

_FIRST_WAIT_SEC, _LONGEST_WAIT_SEC = 0.2, 10.0
_WATCH_SEC = 300.0
_PATIENCE_SEC = 5.0
DELETED, _BOOKMARK = "DELETED", "BOOKMARK"


class PodsListed(NamedTuple):
    """All pods that there were at a moment since the last news."""

    pods: list[dict[str, Any]]


class PodSeen(NamedTuple):
    """A pod has changed; `change` is ADDED, MODIFIED or DELETED, and `pod` how it is, or was last."""

    change: str
    pod: dict[str, Any]


class PodWatch:
    """Calls `news` in its thread. It goes on for ever: where the API server does not answer it tries again, and where
    that does not know any more what has changed it lists all pods again."""

    def __init__(
        self, api: KubernetesApi, labels: Mapping[str, str], news: Callable[[PodsListed | PodSeen], object]
    ) -> None:
        self._api, self._labels, self._news = api, labels, news
        self._stopped = threading.Event()
        self._watch: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="pod-watch")

    def start(self) -> None:
        """Begin with a list of all."""
        self._thread.start()

    def stop(self) -> None:
        """No news come after this."""
        self._stopped.set()
        if self._watch:
            self._watch.close()
        self._thread.join(_PATIENCE_SEC)

    def _run(self) -> None:
        wait, version = _FIRST_WAIT_SEC, ""
        while not self._stopped.is_set():
            try:
                version = self._follow(version or self._list())
                wait = _FIRST_WAIT_SEC
            except Expired:
                version = ""
            except ApiError:
                self._stopped.wait(wait)
                wait = min(_LONGEST_WAIT_SEC, 2 * wait)

    def _list(self) -> str:
        pods, version = self._api.list("Pod", self._labels)
        self._news(PodsListed(pods))
        return version

    def _follow(self, version: str) -> str:
        """Report changes until the watch ends. Returns the version up to which they were reported."""
        self._watch = self._api.watch("Pod", labels=self._labels, resource_version=version, timeout_sec=_WATCH_SEC)
        began = version
        for change, pod in self._watch:
            version = str(pod["metadata"]["resourceVersion"])
            if self._stopped.is_set():
                break
            if change != _BOOKMARK:
                self._news(PodSeen(change, pod))
        if version == began:  # a proxy may end it at once
            self._stopped.wait(_FIRST_WAIT_SEC)
        return version
