"""`kedge` commands without the time that an interpreter takes to start: forked from a server that has loaded kedge.

It is a server of its own, because a process with threads, as pytest has, must not fork.
"""

from __future__ import annotations

import multiprocessing
import runpy
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kedge.cli.main import COMMANDS

_BODY = str(Path(__file__).with_name("forked_command.py"))  # by its path: under pytest, this package has another name
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["kedge.jobs", "kedge.engines.local.engine", *(f"kedge.cli.commands.{name}" for name in COMMANDS)]
)


class Forked:
    """As much of a subprocess.Popen as a scene needs."""

    def __init__(self, args: Sequence[str], folder: Path, environment: Mapping[str, str], out: Path, err: Path) -> None:
        given = {"args": list(args), "folder": folder, "environment": dict(environment), "files": (out, err)}
        self._process = _SERVER.Process(target=runpy.run_path, args=(_BODY, given, "__main__"))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("kedge", timeout or 0.0)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()
