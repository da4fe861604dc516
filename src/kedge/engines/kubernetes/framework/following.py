"""Brings what FrameworkController has done with a run to this machine: once, or until the end of the run.

Registered in `kedge.lazy_modules.FETCH`: see kedge.runs.copies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kedge.engines.kubernetes.access import copy_state
from kedge.engines.kubernetes.access.copy_state import CopyLock, CopyState
from kedge.engines.kubernetes.api import ApiError, ApiWatch, Expired
from kedge.engines.kubernetes.framework.folding import FrameworkRecorder
from kedge.engines.kubernetes.framework.submitted import SubmittedFramework
from kedge.errors import CannotRun
from kedge.runs.folder import Run
from kedge.runs.liveness import has_end

PART = "copied"  # of copy_state
_BUSY_SEC = 5.0  # how long another process may need for what it records
_WATCH_SEC = 20.0
_AGAIN_SEC = 1.0
_NO_FILES = "FrameworkController keeps no outputs of tasks, and kedge has no files in their pods"


def import_runs(options: Mapping[str, Any], jobs: Path, wanted: str | None) -> None:
    """Runs that other machines have submitted are imported by those of the kubernetes engine."""


def fetch(run: Run, *, logs: bool = False, outputs: tuple[str, ...] = ()) -> str:
    """Record what is new, and with `logs` read what running tasks have printed. Returns why that was not possible;
    empty if it was."""
    if has_end(run):
        return ""
    try:
        with copy_state.taken(run.cluster, PART, _BUSY_SEC) as lock:
            if lock is None:
                return ""  # another process does it
            _record(SubmittedFramework(run), logs=logs)
            lock.news()
    except (CannotRun, OSError) as error:
        return str(error)
    copy_state.write(run.cluster, CopyState(time.time(), has_end(run), has_end(run), True))
    return ""


def _record(found: SubmittedFramework, *, logs: bool) -> None:
    framework = found.framework()
    if framework is None:
        return
    recorder = FrameworkRecorder(found, logs=logs)
    try:
        recorder.record(framework)
    finally:
        recorder.close()


def finish(run: Run) -> str:
    """Nothing of an ended run would be lost later."""
    return ""


def tunnel(run: Run, role: str, index: int, host: str, port: int) -> str:
    """CannotRun."""
    raise CannotRun(f"{run.id} is run by FrameworkController: use kubectl port-forward to its pods")


def copy_in(run: Run, role: str, index: int, source: str, folder: str, path: str, progress: Any) -> int:
    """CannotRun."""
    raise CannotRun(f"{_NO_FILES}: use kubectl cp")


def fetch_secrets(run: Run) -> None:
    """CannotRun."""
    raise CannotRun(f"{run.id} is run by FrameworkController, and its secrets are in the cluster alone")


class FrameworkFollower:
    """A thread that records what happens until the end of the run, with the logs of its tasks."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._over, self._first = threading.Event(), threading.Event()
        self._watch: ApiWatch | None = None
        self._thread = threading.Thread(target=self._follow, name="fetch", daemon=True)

    def start(self, patience_sec: float) -> None:
        """Start, and wait until all that has happened is recorded, or nothing can be reached; at most so long."""
        self._thread.start()
        self._first.wait(patience_sec)

    def close(self) -> None:
        """End."""
        self._over.set()
        if watch := self._watch:
            watch.close()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._over.is_set() and not has_end(self._run):
                lock = CopyLock(self._run.cluster, PART)
                try:
                    if lock.take():
                        self._record(lock)
                    self._first.set()
                finally:
                    lock.close()
                self._over.wait(_AGAIN_SEC)
        finally:
            self._first.set()

    def _record(self, lock: CopyLock) -> None:
        try:
            found = SubmittedFramework(self._run)
            recorder = FrameworkRecorder(found, logs=True, follow=True)
            try:
                while not self._over.is_set() and self._look(found, recorder, lock):
                    pass
            finally:
                recorder.close()
        except (CannotRun, OSError):  # for now; what is said of the run by the API server tells the user
            return

    def _look(self, found: SubmittedFramework, recorder: FrameworkRecorder, lock: CopyLock) -> bool:
        """Record what is so, and then what changes for a while. Returns whether anything can follow."""
        framework = found.framework()
        if framework is None or recorder.record(framework).is_over:
            return False
        lock.news()
        self._first.set()
        version = str(framework["metadata"].get("resourceVersion") or "")
        try:
            watch = found.api.watch("Framework", name=found.name, resource_version=version, timeout_sec=_WATCH_SEC)
        except (Expired, ApiError):
            self._over.wait(_AGAIN_SEC)
            return True
        self._watch = watch
        try:
            for kind, changed in watch:
                if self._over.is_set() or kind == "DELETED":
                    return False
                if kind != "BOOKMARK" and recorder.record(changed).is_over:
                    return False
                lock.news()
        except Expired:
            pass
        finally:
            self._watch = None
            watch.close()
        return True


Follower = FrameworkFollower  # the name by which kedge.runs.copies asks for it
