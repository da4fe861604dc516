"""Shows how far a copy has come, of the job's code or by kedge cp, if it takes long."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

PATIENCE_SEC = 0.5  # a copy that is done by then shows no bar


class CopyBar:
    """Call it with the bytes copied and the total. Shows nothing for a quick copy, or if stderr is not a terminal."""

    def __init__(self, what: str = "copying code") -> None:
        self._what = what
        self._start = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> CopyBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if not self._bar and sys.stderr.isatty() and time.monotonic() - self._start > PATIENCE_SEC:
            self._bar = importlib.import_module("kedge.cli.view.progress_bar").Bar(self._what)
        if self._bar:
            self._bar(done, total)
