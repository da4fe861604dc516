"""Takes what tasks have downloaded into the user's cache of data, which containers can read and not write."""

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

_LOOKS = 2
_DOWNLOAD = "download"  # the kind of action


class Downloads:
    """Of one job. A task is not asked what it has fetched: only what its role's steps name is looked for."""

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
        """Take, in the background, what an attempt of a task has fetched by now. Any thread may call; when the command
        runs and at its end is enough, and a task that says more often that it runs is not heard."""
        self._looks[launch.folder] = looks = self._looks.get(launch.folder, 0) + 1
        if looks <= _LOOKS and self._wanted[launch.task.role] - self._taken:
            with suppress(RuntimeError):  # closed
                self._pool.submit(self._take, launch)

    def give_up(self) -> None:
        """Take nothing more: the job is to stop."""
        self._over.set()

    def resume(self) -> None:
        """Take again what is there."""
        self._over.clear()

    def close(self) -> None:
        """What is being taken is still taken, unless it was given up."""
        self._pool.shutdown()

    def _take(self, launch: Launch) -> None:
        for each in self._wanted[launch.task.role] - self._taken:
            name = f"{PAI_DIR}/{FETCHED_DIR}/{each}"
            with suppress(OSError):  # it costs a later task a download
                if self._cache and self._cache.take(launch.folder, name, each, self._over.is_set):
                    self._taken.add(each)


def _sums(role: RolePlan) -> Iterator[str]:
    for action in (callback.action for step in role.steps for callback in step.callbacks):
        if action and action.kind == _DOWNLOAD and is_sum(found := action.parameters.get("sha256")):
            yield str(found)
