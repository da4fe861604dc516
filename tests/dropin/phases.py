"""The init phase as a process of its own, without a container."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kedge.dropin import program_files

START = "from kedge.dropin.launch import launch; launch()"


class Phase(NamedTuple):
    """An init phase that has ended. `log` is init.log."""

    code: int
    log: str
    work: Path
    logs: Path

    @property
    def messages(self) -> list[str]:
        """The lines of the log without time and place."""
        return [line.split(" - ", 3)[-1] for line in self.log.splitlines()]


RunInit = Callable[..., Phase]


def make_work(folder: Path) -> Path:
    """A work folder with the programs of kedge, and a folder `config` for the configuration."""
    (folder / "config").mkdir(parents=True)
    for file, name in program_files.FILES.items():
        add_program(folder, file, program_files.text(name))
    return folder


def add_program(work: Path, name: str, text: str, mode: int = 0o755) -> Path:
    """An executable file in init.d."""
    path = work / "init.d" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def environment(work: Path, **variables: str) -> dict[str, str]:
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    places = {"PAI_WORK_DIR": str(work), "PAI_CONFIG_DIR": str(work / "config"), "FC_POD_UID": "pod-1"}
    return {"PATH": path, **places, **variables}


def run_phase(work: Path, **variables: str) -> Phase:
    """Run the init phase with these variables."""
    done = subprocess.run(
        [sys.executable, "-c", START], env=environment(work, **variables), capture_output=True, text=True, timeout=60,
        cwd="/",
    )  # fmt: skip
    logs = work / "logs" / "pod-1"
    log = (logs / "init.log").read_text()
    assert log.endswith(done.stderr), "the container's output is in the log, too"
    return Phase(done.returncode, log, work, logs)
