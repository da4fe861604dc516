"""The gate behind which the tasks of a gang wait until the containers of all have started.

It is a pipe to which nobody writes: its readers wait, and reach its end when it is opened."""

from __future__ import annotations

import os
from pathlib import Path

from kedge.engines.container import render


class StartGate:
    """Open at first. Only for the controller's thread."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._missing = 0

    def shut(self, shared: Path, tasks: int) -> None:
        """Let the tasks of a job attempt wait until `tasks` of them have started; `shared` is their common folder."""
        self._pipe = os.open(shared / render.GATE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._missing = tasks

    def count_start(self) -> None:
        """One more has started, or will never start."""
        self._missing -= 1
        if self._missing == 0:
            self.open()

    def open(self) -> None:
        """Let all that wait go on. Nothing happens when it is open."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
