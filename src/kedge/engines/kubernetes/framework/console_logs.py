"""What the tasks of a Framework print, by the API: their pods' logs, as long as the pods exist.

A log is kept where that of any task is; the lines of the runtime are in runtime.log. RUN/cluster/printed.json says for
each pod how much is here and when the last line of that was printed, so that a later command goes on there and nothing
comes twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kedge.contract import CURRENT, RUNTIME_LOG, USER_ALL
from kedge.engines.kubernetes.api import ApiError, KubernetesApi
from kedge.engines.kubernetes.pods import fields
from kedge.engines.kubernetes.transport.pod_log import PodLog
from kedge.errors import CannotRun
from kedge.own_files import open_own, write_all
from kedge.runs.cluster_files import ClusterFiles
from kedge.runs.folder import Run
from kedge.runs.logs import tail

APP, INIT = "app", "init"
TAIL = 1 << 20  # bytes of a log that explain a failure
_FILE = "printed.json"
_OF_RUNTIME = b"] [openpai-runtime] ["  # in the lines that the runtime prints itself
_LONGEST_HEAD = 80  # bytes: the time stands before that
_SAVED_BYTES = 1 << 18  # between two records of how much is here
_AGAIN_SEC = 1.0


class PrintedUntil(NamedTuple):
    """How much of a log is here (of the user's lines and of the runtime's, in bytes), the time of the last line, and
    how many lines of that time are."""

    size: int = 0
    runtime: int = 0
    time: str = ""
    same: int = 0


class LogPlace(NamedTuple):
    """A task attempt's log: the pod it is read from, and the folder it is kept in."""

    pod: str
    pod_uid: str
    folder: Path


def folder(run: Run, role: str, index: int, attempt: int, task_attempt: int) -> Path:
    """The folder of a task attempt, which is made."""
    path = run.task(role, index, attempt, task_attempt)
    os.makedirs(path / USER_ALL, mode=0o700, exist_ok=True)
    return path


def container_of(pod: dict[str, Any]) -> str:
    """Whose log matters now: the user's, or that of the init phase if that has failed; empty if there is none yet."""
    if _state(pod, APP).keys() & {"running", "terminated"}:
        return APP
    failed = "terminated" in _state(pod, INIT) and fields.phase(pod) == "Failed"
    return INIT if failed else ""


def end_of(run: Run, role: str, index: int, attempt: int, task_attempt: int) -> bytes:
    """The end of what is here of a log."""
    return tail(run.task(role, index, attempt, task_attempt), f"{USER_ALL}/{CURRENT}", TAIL)


class ConsoleLog:
    """Reads the log of one pod into its file; by one process at a time."""

    def __init__(self, api: KubernetesApi, files: ClusterFiles, where: LogPlace, lock: threading.Lock) -> None:
        self._api, self._files, self._where, self._lock = api, files, where, lock
        self._stream: PodLog | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, pod: dict[str, Any]) -> None:
        """Read it until the container ends, in a thread. `pod` is how it is now."""
        self._thread = threading.Thread(target=self._follow, args=(pod,), name="log", daemon=True)
        self._thread.start()

    def finish(self, patience_sec: float) -> None:
        """Wait until all has come, but only so long."""
        if self._thread:
            self._thread.join(patience_sec)
        self.close()

    def close(self) -> None:
        """End."""
        self._over.set()
        if self._stream:
            self._stream.close()
        if self._thread:
            self._thread.join()

    def fetch(self) -> None:
        """Read what there is now."""
        with suppress(ApiError):
            if pod := self._pod():
                self._read(pod, follow=False)

    def _follow(self, pod: dict[str, Any] | None) -> None:
        while not self._over.is_set():
            with suppress(ApiError):
                pod = pod or self._pod()
                if pod is None or self._read(pod, follow=True):
                    return
            pod = None
            self._over.wait(_AGAIN_SEC)

    def _pod(self) -> dict[str, Any] | None:
        pod = self._api.get("Pod", self._where.pod)
        return pod if pod and pod["metadata"].get("uid") == self._where.pod_uid else None

    def _read(self, pod: dict[str, Any], *, follow: bool) -> bool:
        """Returns whether that was all: the container had ended."""
        container = container_of(pod)
        if not container:
            return False
        ended = "terminated" in _state(pod, container)
        until = self._known()
        self._stream = self._api.printed(self._where.pod, container, follow=follow and not ended, since=until.time)
        self._take(until)
        return ended

    def _take(self, start: PrintedUntil) -> None:
        assert self._stream is not None
        until, saved, passed = start, start.size, 0
        with ExitStack() as files:
            user = files.enter_context(_continued(self._where.folder / USER_ALL / CURRENT, start.size))
            runtime = files.enter_context(_continued(self._where.folder / RUNTIME_LOG, start.runtime))
            files.callback(lambda: self._save(until))
            for line in self._stream:
                if line.time < start.time:
                    continue
                if line.time == start.time and passed < start.same:
                    passed += 1
                    continue
                same = until.same + 1 if line.time == until.time else 1
                until = until._replace(time=line.time, same=same)
                if _OF_RUNTIME in line.data[:_LONGEST_HEAD]:
                    write_all(runtime, line.data)
                    until = until._replace(runtime=until.runtime + len(line.data))
                else:
                    write_all(user, line.data)
                    until = until._replace(size=until.size + len(line.data))
                if until.size > saved + _SAVED_BYTES:
                    self._save(until)
                    saved = until.size

    def _known(self) -> PrintedUntil:
        found: Any = self._files.object(self._files.folder / _FILE).get(self._where.pod_uid)
        try:
            size, runtime, time, same = found
            return PrintedUntil(int(size), int(runtime), str(time), int(same))
        except (TypeError, ValueError):
            return PrintedUntil()

    def _save(self, until: PrintedUntil) -> None:
        path = self._files.folder / _FILE
        with self._lock, suppress(CannotRun, OSError):
            self._files.write(path, {**self._files.object(path), self._where.pod_uid: list(until)}, synced=False)


@contextmanager
def _continued(path: Path, size: int) -> Iterator[int]:
    """A file that is written on after so many bytes."""
    fd = open_own(path, os.O_WRONLY)
    try:
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def _state(pod: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(fields.container(pod, name).get("state") or {})
