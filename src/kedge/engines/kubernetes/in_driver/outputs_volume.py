"""The folders of a run on the site's volume for outputs. The driver makes them before pods mount them, as tasks may be
any user, and a kubelet may not be allowed to."""

from __future__ import annotations

import importlib
import os
from contextlib import suppress
from pathlib import Path

from kedge.contract import JOB_DIR
from kedge.engines.base import TaskAttempt
from kedge.engines.kubernetes.objects import pod_paths, task_volumes
from kedge.errors import CannotRun
from kedge.own_files import clear

_OWN, _OPEN = 0o755, 0o777


class OutputsVolume:
    """The folders of the run `name` on the claim `claim`, which is mounted at `top`."""

    def __init__(self, name: str, claim: str, top: str = pod_paths.OUTPUTS_VOLUME) -> None:
        self._name, self._claim, self._top = name, claim, top

    def prepare(self, old: str = "") -> tuple[str, ...]:
        """Make the folder that all tasks share: as a copy of that of the run `old`, if one is named. Returns the paths
        of what was left out of the copy. CannotRun: the volume cannot be written."""
        path = f"{self._top}/{task_volumes.job_folder(self._name)}"
        if not old or os.path.lexists(path):
            self._make(task_volumes.job_folder(self._name))
            return ()
        half = f"{task_volumes.kept_folder(self._name)}/.{JOB_DIR}.new"
        clear(Path(self._top, half))
        self._make(half)
        left_out = self._copy(old, Path(self._top, half))
        os.rename(f"{self._top}/{half}", path)
        return left_out

    def _copy(self, old: str, target: Path) -> tuple[str, ...]:
        copier = importlib.import_module("kedge.runs.tree_copy")  # few runs begin with a copy
        try:
            found: tuple[str, ...] = copier.copy(Path(self._top, task_volumes.kept_folder(old)), JOB_DIR, target)
        except FileNotFoundError:
            raise CannotRun(
                f"the job folder of the earlier run is not on the volume of the claim {self._claim} any more, so this "
                "one cannot begin with a copy of it"
            ) from None
        return found

    def make(self, attempt: TaskAttempt) -> None:
        """Make the folder of a task attempt's outputs. CannotRun."""
        self._make(task_volumes.outputs_folder(self._name, attempt))

    def _make(self, path: str) -> None:
        """Make a folder in which every user may write, and those above it, which stay the driver's."""
        at = self._top
        try:
            for part in path.split("/"):
                at = f"{at}/{part}"
                with suppress(FileExistsError):
                    os.mkdir(at, _OWN)
                    os.chmod(at, _OPEN if at == f"{self._top}/{path}" else _OWN)
        except OSError as error:
            raise CannotRun(
                f"the driver, which is the user {os.getuid()}, cannot make a folder for outputs on the volume of the "
                f"claim {self._claim} (engines.kubernetes.outputs-volume): {error.strerror}: its top folder must be "
                "writable for this user or for all"
            ) from error
