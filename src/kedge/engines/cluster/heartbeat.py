"""A file that shows on every node that shares the run folder that the controller lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from kedge.errors import DiskFull
from kedge.runs import cluster_files
from kedge.runs.folder import Run


class Heartbeat:
    """Writes the file of a run, at once and then every 15 s, if `beat` is called when it is `due`. `before` is called
    first."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.due = 0.0  # by time.monotonic()
        self.before: Callable[[], object] = lambda: None

    def beat(self) -> None:
        """Write the file if it is time. A full disk is no reason to end the job here."""
        now = time.monotonic()
        if now >= self.due:
            self.before()
            self.due = now + cluster_files.HEARTBEAT_SEC
            with suppress(OSError, DiskFull):
                cluster_files.of(self._run.path).beat()
