"""The mirrored files of a job attempt's tasks, where these and the controller share no folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from kedge.engines.base import Task
from kedge.engines.cluster.mirrored import MirroredTask
from kedge.engines.controller.reports import Launch
from kedge.link import mirroring


class Mirrors:
    """Stores what agents send of task attempts in their folders of the run folder."""

    def __init__(self) -> None:
        self._open: dict[Task, tuple[str, MirroredTask]] = {}  # with the folder
        self._problems: dict[Task, str] = {}  # of what could not be opened

    def take(self, launch: Launch, header: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """Store what a FILE message says. Returns the header of the OFFSETS that answer it, if any. What cannot be
        stored does not delay the agent; `end` reports it."""
        try:
            return self._of(launch).take(header, body)
        except OSError as error:
            self._problems.setdefault(launch.task, f"files could not be stored: {error}")
            asked = header.get("do") == mirroring.ASK
            return {"task_attempt": launch.task_attempt, "files": {}} if asked else None

    def complete(self, launch: Launch) -> bool:
        """Whether all files have arrived."""
        with suppress(OSError):
            return Path(launch.folder, mirroring.MARK).exists() and self._of(launch).complete
        return False

    def end(self, launch: Launch) -> str:
        """The task attempt has ended, and nothing more is stored. Returns what its folder does not have, for the user;
        empty if it has everything."""
        if launch.task not in self._open and not Path(launch.folder, mirroring.MARK).exists():
            return "none of its logs, report and outputs have arrived from its node"
        try:
            mirrored = self._of(launch)
        except OSError as error:
            return f"files could not be stored: {error}"
        missing = [mirrored.missing, self._problems.get(launch.task, "")]
        self.forget(launch.task)
        return "; ".join(filter(None, missing))

    def forget(self, task: Task) -> None:
        """Release what is open of a task; what has arrived stays."""
        self._problems.pop(task, None)
        if known := self._open.pop(task, None):
            known[1].close()

    def close(self) -> None:
        """Release everything."""
        for task in list(self._open):
            self.forget(task)

    def _of(self, launch: Launch) -> MirroredTask:
        folder, mirrored = self._open.get(launch.task, ("", None))
        if mirrored is None or folder != launch.folder:
            if mirrored:
                self.forget(launch.task)
            os.makedirs(launch.folder, exist_ok=True)  # another controller may have lost the run folder
            mirrored = MirroredTask(Path(launch.folder))
            self._open[launch.task] = (launch.folder, mirrored)
        return mirrored
