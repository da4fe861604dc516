"""How long one try of a hook may take."""

from __future__ import annotations

import math
import time

_AGAIN_SEC = 0.05  # for whoever was forked while the others were killed


class TimeLimit:
    """`next` is the moment of the next rung (of time.monotonic): a gentle signal first, SIGKILL from then on."""

    def __init__(self, limit_sec: float | None) -> None:
        self.next = math.inf if limit_sec is None else time.monotonic() + limit_sec
        self.passed = False  # the time was over before the program was

    def climb(self, grace_sec: float) -> bool:
        """Whether this is the gentle rung; the one after it is due in `grace_sec`."""
        gentle, self.passed = not self.passed, True
        self.next = time.monotonic() + (grace_sec if gentle else _AGAIN_SEC)
        return gentle


NO_LIMIT = TimeLimit(None)
