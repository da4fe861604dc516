"""What the owner of a run asks of its driver: an annotation of the anchor, which kedge's commands write."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import ApiError, Expired, KubernetesApi
from kedge.engines.kubernetes.in_driver.leaving import Leave, leave
from kedge.engines.kubernetes.objects import labels
from kedge.link.messages import REQUESTS

_FIRST_WAIT_SEC, _LONGEST_WAIT_SEC = 0.2, 10.0
_WATCH_SEC = 300.0
_LONGEST_NAME = 100


class AnchorRequest(NamedTuple):
    """One of them: `kind` is one of link.messages.REQUESTS, `by` is who, as they say."""

    id: str
    kind: str
    by: str


class AnchorWatch:
    """Watches the anchor in a thread of its own. `fileno` becomes readable when there may be requests. A driver whose
    anchor was deleted ends what runs, and leaves: somebody has removed the run."""

    def __init__(self, api: KubernetesApi, name: str, uid: str, leaves: Leave = leave) -> None:
        self._api, self._name, self._uid, self._leave = api, name, uid, leaves
        self._found: queue.SimpleQueue[list[AnchorRequest]] = queue.SimpleQueue()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopped = threading.Event()
        self.fetched = threading.Event()  # the client has everything
        self._thread = threading.Thread(target=self._run, daemon=True, name="anchor-watch")

    def start(self) -> None:
        """Begin with what is there."""
        self._thread.start()

    def fileno(self) -> int:
        return self._event

    def requests(self) -> list[AnchorRequest]:
        """All requests that the annotation has, if it was read since the last call."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        found: list[AnchorRequest] = []
        with suppress(queue.Empty):
            while True:
                found = self._found.get_nowait()  # the latest has all
        return found

    def stop(self) -> None:
        """Nothing comes after this."""
        self._stopped.set()

    def _run(self) -> None:
        wait, version = _FIRST_WAIT_SEC, ""
        while not self._stopped.is_set():
            try:
                version = self._follow(version or self._look())
                wait = _FIRST_WAIT_SEC
            except Expired:
                version = ""
            except ApiError:
                version = ""
                self._stopped.wait(wait)
                wait = min(_LONGEST_WAIT_SEC, 2 * wait)

    def _look(self) -> str:
        found = self._api.get("ConfigMap", self._name)
        if found is None:
            self._removed()
            return ""
        self._take(found)
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        if not version:
            return ""
        began = version
        watch = self._api.watch("ConfigMap", name=self._name, resource_version=version, timeout_sec=_WATCH_SEC)
        for change, found in watch:
            version = str(found["metadata"]["resourceVersion"])
            if change == "DELETED":
                self._removed()
            elif change != "BOOKMARK":
                self._take(found)
        if version == began:
            self._stopped.wait(_FIRST_WAIT_SEC)
        return version

    def _take(self, found: Mapping[str, Any]) -> None:
        if found["metadata"].get("uid") != self._uid or found["metadata"].get("deletionTimestamp"):
            self._removed()
        said = found["metadata"].get("annotations") or {}
        if labels.FETCHED in said:
            self.fetched.set()
        if asked := _parsed(said.get(labels.REQUESTS, "")):
            self._found.put(asked)
            os.eventfd_write(self._event, 1)

    def _removed(self) -> None:
        if self._stopped.is_set():
            return
        with suppress(ApiError):
            for pod in self._api.list("Pod", labels.of_component(self._name, labels.TASK))[0]:
                with suppress(ApiError):
                    self._api.delete("Pod", pod["metadata"]["name"], uid=pod["metadata"]["uid"])
        self._leave("the run was removed from the cluster")


def _parsed(text: str) -> list[AnchorRequest]:
    """The requests of an annotation; those that are none are ignored."""
    try:
        said = json.loads(text or "[]")
    except ValueError:
        return []
    found = []
    for each in said if isinstance(said, list) else ():
        if isinstance(each, dict) and each.get("kind") in REQUESTS and isinstance(each.get("id"), str):
            found.append(AnchorRequest(each["id"], each["kind"], str(each.get("by", ""))[:_LONGEST_NAME]))
    return found
