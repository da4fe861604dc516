"""The logs of all pods of a Framework that is followed. FrameworkController deletes a pod as soon as it has ended, so
each log is asked for as soon as its container runs: the pods are watched."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, NamedTuple

from kedge.engines.kubernetes.api import ApiError, ApiWatch, Expired
from kedge.engines.kubernetes.framework import console_logs
from kedge.engines.kubernetes.framework.console_logs import ConsoleLog, LogPlace
from kedge.engines.kubernetes.framework.submitted import POD_LABEL, SubmittedFramework

_WATCH_SEC = 60.0
_AGAIN_SEC = 1.0
_ROLE, _INDEX = "FC_TASKROLE_NAME", "FC_TASK_INDEX"
_ATTEMPT, _TASK_ATTEMPT = "FC_FRAMEWORK_ATTEMPT_ID", "FC_TASK_ATTEMPT_ID"


class LogKey(NamedTuple):
    """Whose log: a task attempt, its role by the name of the job file."""

    role: str
    task_index: int
    attempt: int
    task_attempt: int


class FrameworkLogs:
    """The logs that are being read. `roles` are the names of the job file by those of the Framework."""

    def __init__(self, found: SubmittedFramework, roles: dict[str, str]) -> None:
        self._found, self._run, self._roles = found, found.run, roles
        self._open: dict[LogKey, ConsoleLog] = {}
        self._lock, self._printed = threading.Lock(), threading.Lock()
        self._over = threading.Event()
        self._watch: ApiWatch | None = None
        self._thread: threading.Thread | None = None

    def follow(self) -> None:
        """Read the log of each pod from when it begins, in threads."""
        self._thread = threading.Thread(target=self._follow, name="pods", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._over.set()
        if watch := self._watch:
            watch.close()
        if self._thread:
            self._thread.join()
        for log in self._open.values():
            log.close()

    def fetch(self, key: LogKey, pod: str, uid: str) -> None:
        """Read what there is of one log now, unless it is followed."""
        if self._thread is None and (log := self._begin(key, pod, uid)):
            log.fetch()

    def finish(self, key: LogKey, patience_sec: float) -> None:
        """Wait until all of a log has come, but only so long."""
        with self._lock:
            log = self._open.get(key)
        if log:
            log.finish(patience_sec)

    def _begin(self, key: LogKey, pod: str, uid: str) -> ConsoleLog | None:
        """A log that is new; None: it is known."""
        with self._lock:
            if key in self._open:
                return None
            where = LogPlace(pod, uid, console_logs.folder(self._run, *key))
            log = self._open[key] = ConsoleLog(self._found.api, self._run.cluster, where, self._printed)
            return log

    def _follow(self) -> None:
        labels = {POD_LABEL: self._found.name}
        while not self._over.is_set():
            with suppress(ApiError, Expired, OSError):
                pods, version = self._found.api.list("Pod", labels)
                for pod in pods:
                    self._look(pod)
                self._watch = self._found.api.watch(
                    "Pod", labels=labels, resource_version=version, timeout_sec=_WATCH_SEC
                )
                try:
                    for kind, pod in self._watch:
                        if kind in ("ADDED", "MODIFIED") and not self._over.is_set():
                            self._look(pod)
                finally:
                    self._watch.close()
            self._over.wait(_AGAIN_SEC)

    def _look(self, pod: dict[str, Any]) -> None:
        if console_logs.container_of(pod) and (key := self._key(pod)):
            head = pod["metadata"]
            if log := self._begin(key, head["name"], head["uid"]):
                log.follow(pod)

    def _key(self, pod: dict[str, Any]) -> LogKey | None:
        """None: it is no pod that FrameworkController has made for a task of this job."""
        head = pod["metadata"]
        known = {**(head.get("annotations") or {}), **(head.get("labels") or {})}
        role = self._roles.get(known.get(_ROLE, ""))
        try:
            numbers = [int(known[name]) for name in (_INDEX, _ATTEMPT, _TASK_ATTEMPT)]
        except (KeyError, ValueError):
            return None
        return LogKey(role, *numbers) if role else None
