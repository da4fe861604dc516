"""The mirrored files of a job attempt's tasks, where these and the controller share no folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kedge.engines.base import Task
from kedge.engines.cluster.mirror_mark import FILE
from kedge.engines.cluster.mirrored import MirroredTask
from kedge.engines.controller.reports import Launch


class Mirrors:
    """Stores what agents send of task attempts in their folders of the run folder."""

    def __init__(self) -> None:
        self._open: dict[Task, tuple[str, MirroredTask]] = {}  # with the folder

    def take(self, launch: Launch, header: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """Store what a FILE message says. Returns the header of the OFFSETS that answer it, if any. OSError: the folder
        of the task attempt is not there."""
        return self._of(launch).take(header, body)

    def complete(self, launch: Launch) -> bool:
        """Whether all files have come."""
        known = self._open.get(launch.task)
        return known is not None and known[0] == launch.folder and known[1].complete

    def end(self, launch: Launch) -> str:
        """The task attempt has ended, and nothing more is stored. Returns what its folder does not have, for the user;
        empty if it has everything."""
        if launch.task not in self._open and not Path(launch.folder, FILE).exists():
            return "nothing of its logs, its report and its outputs has come from its node"
        try:
            mirrored = self._of(launch)
        except OSError as error:
            return f"its files could not be stored: {error}"
        missing = [mirrored.missing] if mirrored.missing else []
        if not mirrored.complete:
            missing.insert(0, "the end of its logs and its outputs may be missing: the last of them has not come")
        self.forget(launch.task)
        return "; ".join(missing)

    def forget(self, task: Task) -> None:
        """Release what is open of a task; what has come stays."""
        if known := self._open.pop(task, None):
            known[1].close()

    def close(self) -> None:
        """Release everything."""
        for task in list(self._open):
            self.forget(task)

    def _of(self, launch: Launch) -> MirroredTask:
        folder, mirrored = self._open.get(launch.task, ("", None))
        if mirrored is None or folder != launch.folder:
            self.forget(launch.task)
            mirrored = MirroredTask(Path(launch.folder))
            self._open[launch.task] = (launch.folder, mirrored)
        return mirrored
