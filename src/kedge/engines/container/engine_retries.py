"""Calls of a container engine that may be restarted meanwhile: they are repeated for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kedge.engines.container.engine_answers import EngineGone

T = TypeVar("T")

_PATIENCE_SEC = 60.0
_PAUSE_SEC = 0.5


class EngineRetries:
    """Repeats calls until the engine answers, by any thread."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def __call__(self, call: Callable[[], T], again: Callable[[], T] | None = None) -> T:
        """What the call returns; `again` is called from the second time on, if the first may have worked. EngineGone
        after a minute without an answer."""
        end = time.monotonic() + _PATIENCE_SEC
        while True:
            try:
                return call()
            except EngineGone:
                if time.monotonic() > end or self._over.wait(_PAUSE_SEC):
                    raise
                call = again or call

    def close(self) -> None:
        """From now on nothing is repeated."""
        self._over.set()
