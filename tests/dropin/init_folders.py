"""Running init programs in this process, in folders of the test."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kedge.dropin import programs
from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import InitPaths, init_paths
from kedge.dropin.program import InitContext


class Ran(NamedTuple):
    """How an init program ended: its exit code, and its log."""

    code: int
    log: str


class InitFolders:
    """The folders of an init phase, and running programs in them."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.config = work.with_name("pai-config")
        self.runtime_d = work / "runtime.d"
        for folder in (self.config, self.runtime_d, work / "init.d", work / "logs"):
            folder.mkdir(parents=True)

    def variables(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {"PAI_WORK_DIR": str(self.work), "PATH": os.environ["PATH"], **extra}

    def paths(self, variables: Mapping[str, str]) -> InitPaths:
        return init_paths(self.variables(variables))

    def run(self, name: str, *arguments: str, **variables: str) -> Ran:
        environment = self.variables(variables)
        with tempfile.TemporaryFile() as log:
            context = InitContext(init_paths(environment), environment, InitLog((log.fileno(),)))
            code = programs.run(name, arguments, context)
            log.seek(0)
            return Ran(code, log.read().decode())

    def write_framework(self, value: Any) -> None:
        (self.work / "framework.json").write_text(json.dumps(value))

    def text(self, name: str) -> str:
        """A file of the runtime's folder."""
        return (self.runtime_d / name).read_text()
