"""A progress bar for the copy of the job's code."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

PATIENCE_SEC = 0.5  # a copy that is done by then shows no bar


class CopyBar:
    """Call it with the bytes copied and the total. Shows nothing for a quick copy, or if stderr is not a terminal."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._stderr = open(sys.stderr.fileno(), "w", closefd=False)  # noqa: SIM115  unescaped: a bar moves the cursor
        columns = (TextColumn("copying code"), BarColumn(), DownloadColumn())
        self._bar = Progress(*columns, console=Console(file=self._stderr), transient=True)
        self._task = self._bar.add_task("copying", total=None)
        self._shown = False

    def __enter__(self) -> CopyBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if not self._shown and sys.stderr.isatty() and time.monotonic() - self._start > PATIENCE_SEC:
            self._bar.start()
            self._shown = True
        self._bar.update(self._task, completed=done, total=total)
