"""Repeats requests to a container engine for a while, since it may be restarting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kedge.engines.container.api.engine_answers import EngineGone

T = TypeVar("T")

_PATIENCE_SEC = 60.0
_PAUSE_SEC = 0.5


class EngineRetries:
    """Repeats requests until the engine answers. Safe for several threads."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def __call__(self, call: Callable[[], T], again: Callable[[], T] | None = None) -> T:
        """Return the result of `call`. `again` replaces it from the second try on, for requests that may have worked
        although their answer was lost. EngineGone after a minute without an answer."""
        end = time.monotonic() + _PATIENCE_SEC
        while True:
            try:
                return call()
            except EngineGone:
                if time.monotonic() > end or self._over.wait(_PAUSE_SEC):
                    raise
                call = again or call

    def close(self) -> None:
        """Stop repeating requests."""
        self._over.set()
