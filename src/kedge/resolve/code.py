"""The code of a job: the folders of this machine that are copied and used as its tasks' working directories."""

from __future__ import annotations

import os

from kedge.errors import Problem
from kedge.resolve.items import Item
from kedge.resolve.model import Inputs
from kedge.spec.model import Job, Path

WORKDIR = "workdir"  # the name of the snapshot of --workdir or of extras.kedge.workdir


class CodeFolders:
    """The folders of this machine to copy for the job. `paths` maps snapshot names to absolute paths."""

    def __init__(self, job: Job, inputs: Inputs) -> None:
        self._job = job
        self._base = os.path.dirname(os.path.abspath(job.source.file))
        self.paths: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.messages: list[str] = []
        self._for_all_roles: str | None = None
        self._recorded = inputs.record and inputs.record.code
        if inputs.workdir is not None:
            self._use_for_all_roles(os.path.abspath(os.path.expanduser(inputs.workdir)), f"--workdir {inputs.workdir}")

    def of(self, script: Item | None) -> str | None:
        """The name of the snapshot that tasks with this script start in; None for an empty folder per task."""
        if self._for_all_roles:
            return self._for_all_roles
        uri = script.data.get("uri") if script else None
        if script and isinstance(uri, str) and is_local(uri):
            self._add(script.name, uri, (*script.path, "uri"))
            return script.name
        if self._job.kedge.workdir is not None:
            self._add(WORKDIR, self._job.kedge.workdir, ("extras", "kedge", "workdir"))
            return WORKDIR
        return None

    def rules(self, inputs: Inputs) -> tuple[str, ...]:
        """Absolute paths of rule files: first the job's, relative to its file, then the submitter's."""
        if inputs.record:
            return inputs.record.rules
        return (
            *(self._absolute(written) for written in self._job.kedge.rules),
            *(os.path.abspath(os.path.expanduser(path)) for path in inputs.rules),
        )

    def _absolute(self, written: str) -> str:
        return os.path.normpath(os.path.join(self._base, os.path.expanduser(written)))

    def _add(self, name: str, written: str, path: Path) -> None:
        full = self._snapshot(name) or self._absolute(written)
        if not os.path.exists(full):
            self.problems.append(self._job.source.problem(path, f"there is no file or folder {full}"))
        self.paths[name] = full

    def _snapshot(self, name: str) -> str | None:
        """The folder's copy in a recorded run."""
        return os.path.join(self._recorded, name) if self._recorded else None

    def _use_for_all_roles(self, folder: str, option: str) -> None:
        full = self._snapshot(WORKDIR) or folder
        if not os.path.isdir(full):
            self.messages.append(f"{option}: there is no folder {full}")
        self.paths[WORKDIR] = full
        self._for_all_roles = WORKDIR


def is_local(uri: str) -> bool:
    """Whether a script's uri is a path on this machine: absolute, in the home folder, or starting with `.` or `..`."""
    return uri in (".", "..") or uri.startswith(("./", "../", "/", "~/"))
