"""The pipe to which the supervisors of a job attempt write their events while they run."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kedge import untrusted
from kedge.engines.container.rendering import render
from kedge.engines.controller import supervisor_events


class StatusPipe:
    """One pipe for each job attempt, registered with `selector` while it is open."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._pipe: int | None = None
        self._partial = b""

    def open(self, shared: Path) -> None:
        """Open the pipe in `shared`, the common folder of a job attempt's tasks."""
        # Open for reading and writing, so that there is no end of file before a task has opened it.
        self._pipe = os.open(shared / render.STATUS, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._pipe, selectors.EVENT_READ)
        self._partial = b""

    def events(self) -> Iterator[dict[str, Any]]:
        """The events since the last call. Tasks can write to the pipe, too: lines that are not JSON are skipped, and
        the rest is unchecked."""
        if self._pipe is None:
            return
        lines, self._partial = supervisor_events.lines(self._partial + supervisor_events.read(self._pipe))
        for line in lines:
            with suppress(*supervisor_events.MALFORMED):
                yield untrusted.parse(line)

    def close(self) -> None:
        """Close the pipe. Does nothing if it is closed."""
        if self._pipe is not None:
            self._selector.unregister(self._pipe)
            os.close(self._pipe)
            self._pipe = None
