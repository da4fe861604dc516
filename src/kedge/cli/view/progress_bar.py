"""A bar for bytes that are being copied. Slow to load, because of its library."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn


class Bar:
    """The bar, on stderr, until `stop`. Call it with the bytes copied and the total."""

    def __init__(self, what: str) -> None:
        self._stderr = open(sys.stderr.fileno(), "w", closefd=False)  # noqa: SIM115  unescaped: a bar moves the cursor
        columns = (TextColumn(what), BarColumn(), DownloadColumn())
        self._bar = Progress(*columns, console=Console(file=self._stderr), transient=True)
        self._task = self._bar.add_task(what, total=None)
        self._bar.start()

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()
