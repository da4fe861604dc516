"""Copies what tasks have downloaded into the user's data cache, which containers can read but not write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from kedge.contract import FETCHED_DIR, PAI_DIR
from kedge.engines.controller.reports import Launch
from kedge.plan.model import Plan, RolePlan
from kedge.runs.data_cache import DataCache, is_sum

_MOST_LOOKS = 2  # per attempt of a task
_DOWNLOAD = "download"  # the kind of action


class Downloads:
    """The downloads of one job. Only the files that the steps of a role name are looked for: tasks are not trusted."""

    def __init__(self, plan: Plan, cache: str | None) -> None:
        self._cache = DataCache(Path(cache)) if cache else None
        self._wanted = {role.name: frozenset(_sums(role)) if cache else frozenset() for role in plan.roles}
        self._taken: set[str] = set()
        self._looks: dict[str, int] = {}  # by the folder of an attempt
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="downloads")
        if self._cache:
            for each in frozenset().union(*self._wanted.values()):
                self._cache.touch(each)

    def look(self, launch: Launch) -> None:
        """Copy in the background what an attempt of a task has fetched so far. Any thread may call it. Two calls are
        enough, when the command starts and when it ends; more, which a task could cause, are ignored."""
        self._looks[launch.folder] = looks = self._looks.get(launch.folder, 0) + 1
        if looks <= _MOST_LOOKS and self._wanted[launch.task.role] - self._taken:
            with suppress(RuntimeError):  # closed
                self._pool.submit(self._take, launch)

    def give_up(self) -> None:
        """Copy nothing more, because the job is stopping."""
        self._over.set()

    def resume(self) -> None:
        """Copy again."""
        self._over.clear()

    def close(self) -> None:
        """Finish the current copies, unless they were given up."""
        self._pool.shutdown()

    def _take(self, launch: Launch) -> None:
        for each in self._wanted[launch.task.role] - self._taken:
            name = f"{PAI_DIR}/{FETCHED_DIR}/{each}"
            with suppress(OSError):  # a later task will have to download the file
                if self._cache and self._cache.take(launch.folder, name, each, self._over.is_set):
                    self._taken.add(each)


def _sums(role: RolePlan) -> Iterator[str]:
    for action in (callback.action for step in role.steps for callback in step.callbacks):
        if action and action.kind == _DOWNLOAD and is_sum(found := action.parameters.get("sha256")):
            yield str(found)
