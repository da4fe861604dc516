"""The gate at which the tasks of a gang wait until all their containers have started.

It is a pipe without data: its readers wait, and read the end of file when the gate opens."""

from __future__ import annotations

import os
from pathlib import Path

from kedge.engines.container.rendering import render


class StartGate:
    """Open at first. To be used only by the controller's thread."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._missing = 0

    def shut(self, shared: Path, tasks: int) -> None:
        """Make the tasks of a job attempt wait until `tasks` of them have started; `shared` is their common folder."""
        self._pipe = os.open(shared / render.GATE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._missing = tasks

    def count_start(self) -> None:
        """Count one more task that has started, or will never start."""
        self._missing -= 1
        if self._missing == 0:
            self.open()

    def open(self) -> None:
        """Let all waiting tasks continue. Does nothing if it is open."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
