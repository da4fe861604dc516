"""The time limit of one try of a hook."""

from __future__ import annotations

import time

from kedge.runtime.process.loop import NEVER

_RESCAN_SEC = 0.05  # then kill processes that were forked while others were killed


class TimeLimit:
    """`next` is when the next rung of the stop ladder is due (time.monotonic): the stop signal first, then SIGKILL."""

    def __init__(self, limit_sec: float | None) -> None:
        self.next = NEVER if limit_sec is None else time.monotonic() + limit_sec
        self.passed = False  # the limit expired before the program ended

    def climb(self, grace_sec: float) -> bool:
        """Take the next rung. True on the first, the stop signal; the kill is then due in `grace_sec`."""
        first, self.passed = not self.passed, True
        self.next = time.monotonic() + (grace_sec if first else _RESCAN_SEC)
        return first


NO_LIMIT = TimeLimit(None)
