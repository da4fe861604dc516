"""The folders of a run on the site's volume for outputs. The driver makes them before pods mount them, as tasks may be
any user, and a kubelet may not be allowed to."""

from __future__ import annotations

import os
from contextlib import suppress

from kedge.engines.base import TaskAttempt
from kedge.engines.kubernetes.objects import pod_paths, task_volumes
from kedge.errors import CannotRun

_OWN, _OPEN = 0o755, 0o777


class OutputsVolume:
    """The folders of the run `name` on the claim `claim`, which is mounted at `top`."""

    def __init__(self, name: str, claim: str, top: str = pod_paths.OUTPUTS_VOLUME) -> None:
        self._name, self._claim, self._top = name, claim, top

    def prepare(self) -> None:
        """Make the folder that all tasks share. CannotRun: the volume cannot be written."""
        self._make(task_volumes.job_folder(self._name))

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
