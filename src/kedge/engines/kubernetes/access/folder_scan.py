"""The files of a run folder as they are now, looked at again and again at little cost: a folder that has not changed is
not listed again, and the folders of a task are looked at when its mirror has stored something, or less often."""

from __future__ import annotations

import os
import stat
import time

from kedge.contract import EVENTS_FILE, LOG_TIMES, REPORT_FILE
from kedge.engines.kubernetes.access import copy_rules
from kedge.engines.kubernetes.recorded_events import recorded
from kedge.light.contextlib import suppress
from kedge.light.types import Callable, NamedTuple
from kedge.link import mirroring

_RACY_NS = 2 * 10**9  # a folder that has changed so lately may change again without a new time
_COLD_AFTER_SEC, _COLD_SEC = 5.0, 3.0  # how long nothing has changed; between two looks then
_QUIET_SEC = 10.0  # between two looks at a task whose mirror has stored nothing
_TASK_DEPTH = 2  # slashes: the folders of tasks have one
_LAST = (EVENTS_FILE, *copy_rules.JOB_REPORTS)  # written last, so looked at first


class SeenFile(NamedTuple):
    """A regular file at the time of a look; `time` is that of its content, in nanoseconds."""

    inode: int
    size: int
    time: int


class _Folder:
    """One folder: what was in it when it was listed."""

    __slots__ = ("changed", "files", "folders")

    def __init__(self) -> None:
        self.changed = -1  # its time when it was listed; -1: it has to be listed
        self.files: list[str] = []  # paths
        self.folders: list[str] = []


class _TaskLooks:
    """The state of the looks at the folder of a task."""

    __slots__ = ("changed_at", "files", "folders", "looked_at", "sign")

    def __init__(self) -> None:
        self.files: dict[str, SeenFile] = {}
        self.folders: set[str] = set()
        self.sign: tuple[int, int] | None = None  # as it was before the look; None if it may change without being seen
        self.changed_at = self.looked_at = 0.0


class FolderScan:
    """Looks at the folder `top`. `wanted(path)` says whether a file is copied. `folders` are those of the last look."""

    def __init__(self, top: str, wanted: Callable[[str], bool], now: Callable[[], float] = time.monotonic) -> None:
        self.folders: set[str] = set()
        self._top, self._wanted, self._now = top, wanted, now
        self._known: dict[str, _Folder] = {}
        self._tasks: dict[str, _TaskLooks] = {}
        self._reports: dict[str, SeenFile] = {}  # of the job, at the last look

    def look(self) -> dict[str, SeenFile]:
        """The files by their paths; of the events, what is recorded. Those of the job are seen before those of the
        tasks, which are written before."""
        self.folders = set()
        limit = recorded(self._top)
        last = {name: seen for name in _LAST if self._wanted(name) and (seen := self._seen(name))}
        if limit is not None and (events := last.get(EVENTS_FILE)):
            last[EVENTS_FILE] = events._replace(size=min(events.size, limit))
        reports = {name: seen for name, seen in last.items() if name != EVENTS_FILE}
        is_end, self._reports = reports != self._reports, reports
        found: dict[str, SeenFile] = {}
        job = self._listed("")
        for name in job.folders:
            attempt = self._listed(name)
            for inner in attempt.folders:
                found |= self._task(inner, is_end)
            self._files_of(attempt, found)
        self._files_of(job, found)
        for name in _LAST:
            found.pop(name, None)
        return found | last

    def again(self, folder: str) -> dict[str, SeenFile]:
        """The files of one folder, which is listed again for this."""
        self._known.pop(folder, None)
        found: dict[str, SeenFile] = {}
        self._files_of(self._listed(folder), found)
        return found

    def _task(self, folder: str, is_end: bool) -> dict[str, SeenFile]:
        """The files below the folder of a task, or of another one below that of an attempt; at the end of the job as
        they are now, since whoever learns of the end looks no more."""
        task, now = self._tasks.setdefault(folder, _TaskLooks()), self._now()
        is_cold = f"{folder}/{REPORT_FILE}" in task.files and now - task.changed_at > _COLD_AFTER_SEC
        sign = self._sign(folder)
        is_quiet = sign is not None and sign == task.sign and now - task.looked_at < _QUIET_SEC
        if not is_end and (is_quiet or (is_cold and now - task.looked_at < _COLD_SEC)):
            self.folders |= task.folders
            return task.files
        found: dict[str, SeenFile] = {}
        outside, self.folders = self.folders, set()
        self._below(folder, found)
        task.folders = self.folders
        self.folders = outside | task.folders if outside else set(task.folders)
        if found != task.files:
            task.files, task.changed_at = found, now
        task.looked_at, task.sign = now, sign
        return task.files

    def _sign(self, folder: str) -> tuple[int, int] | None:
        """What changes with each file that the driver stores for a task; None if it may change again without that."""
        try:
            times = (
                os.lstat(f"{self._top}/{folder}").st_mtime_ns,
                os.lstat(f"{self._top}/{folder}/{mirroring.MARK}").st_mtime_ns,
            )
        except OSError:
            return None
        return None if time.time_ns() - max(times) < _RACY_NS else times

    def _below(self, folder: str, found: dict[str, SeenFile]) -> None:
        listed = self._listed(folder)
        self._files_of(listed, found)
        for each in sorted(
            listed.folders, key=lambda path: path.endswith(f"/{LOG_TIMES}")
        ):  # the indexes after the logs
            self._below(each, found)

    def _files_of(self, folder: _Folder, found: dict[str, SeenFile]) -> None:
        for path in folder.files:
            if seen := self._seen(path):
                found[path] = seen

    def _seen(self, path: str) -> SeenFile | None:
        try:
            info = os.lstat(f"{self._top}/{path}")
        except OSError:
            return None
        return SeenFile(info.st_ino, info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None

    def _listed(self, folder: str) -> _Folder:
        known = self._known.setdefault(folder, _Folder())
        try:
            info = os.lstat(f"{self._top}/{folder}")
            is_folder = stat.S_ISDIR(info.st_mode)
        except OSError:
            is_folder = False
        if not is_folder:
            del self._known[folder]
            return _Folder()
        if folder:
            self.folders.add(folder)
        if info.st_mtime_ns != known.changed:
            self._list(folder, known)
            is_racy = abs(time.time_ns() - info.st_mtime_ns) < _RACY_NS
            known.changed = -1 if is_racy else info.st_mtime_ns
        return known

    def _list(self, folder: str, known: _Folder) -> None:
        known.files, known.folders = [], []
        with suppress(OSError), os.scandir(f"{self._top}/{folder}") as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if copy_rules.is_folder(path) and self._may_hold(path):
                        known.folders.append(path)
                elif self._wanted(path):
                    known.files.append(path)

    def _may_hold(self, folder: str) -> bool:
        """Whether there may be wanted files below a folder: those of a job and of a task have others below them."""
        return folder.count("/") < _TASK_DEPTH or self._wanted(f"{folder}/x")
