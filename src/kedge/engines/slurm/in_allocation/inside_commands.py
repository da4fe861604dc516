"""Commands of Slurm that the controller starts without waiting for them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from kedge.engines.slurm.in_allocation.step_process import environment
from kedge.engines.slurm.options import SlurmOptions


def command(options: SlurmOptions, name: str) -> str:
    """What to start for a command of Slurm."""
    return f"{options.commands}/{name}" if options.commands else name


class InsideCommands:
    """Starts commands, and reaps them when it starts others."""

    def __init__(self, options: SlurmOptions) -> None:
        self._options = options
        self._started: list[subprocess.Popen[bytes]] = []

    def cancel(self, step: str) -> None:
        """Have Slurm end all processes of the step. It does nothing if scancel cannot be started: the death of its srun
        ends a step, too."""
        self.start([command(self._options, "scancel"), step])

    def start(self, argv: Sequence[str]) -> None:
        """Start a command, whose output is not wanted. Does nothing if that is not possible."""
        self._started = [process for process in self._started if process.poll() is None]
        with suppress(OSError):
            self._started.append(
                subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True, env=environment(os.environ),
                )
            )  # fmt: skip
