"""Watches for containers that have ended: by the engine's events, and by a query when events may have been missed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from kedge.engines.container.api.client import Client, Deaths
from kedge.errors import CannotRun

GIVE_UP_SEC = 60.0  # without an answer of the engine
_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC = 0.1, 2.0


class Watch(threading.Thread):
    """Calls `ended(name)`, possibly more than once, for every container with the label that has ended; `gone(reason)`
    when the engine stops answering, `back()` when it answers again, and `lost()` each time it has not answered for
    GIVE_UP_SEC. `restore` may restart the engine."""

    def __init__(
        self,
        client: Client,
        label: str,
        ended: Callable[[str], None],
        gone: Callable[[str], None],
        back: Callable[[], None],
        lost: Callable[[], None],
        restore: Callable[[], None],
    ) -> None:
        super().__init__(name="containers", daemon=True)
        self._client, self._label = client, label
        self._ended, self._gone, self._back, self._lost, self._restore = ended, gone, back, lost, restore
        self._over = threading.Event()
        self._deaths: Deaths | None = None

    def run(self) -> None:
        gone_since: float | None = None
        pause = _FIRST_PAUSE_SEC
        while not self._over.is_set():
            try:
                self._query()
                if gone_since is not None:
                    gone_since, pause = None, _FIRST_PAUSE_SEC
                    self._back()
                self._listen()
            except Exception as error:  # any error: no other thread watches for ended containers
                now = time.monotonic()
                if gone_since is None and not self._over.is_set():
                    gone_since = now
                    self._gone(str(error))
                if gone_since is not None and now - gone_since > GIVE_UP_SEC:
                    self._lost()
                    gone_since = now
                self._over.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SEC)
                with suppress(CannotRun):  # it is retried
                    self._restore()

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        if self._deaths:
            self._deaths.close()
        self.join(5.0)

    def _query(self) -> None:
        self._queried = time.time()
        for seen in self._client.containers(self._label):
            if seen.ended:
                self._ended(seen.name)

    def _listen(self) -> None:
        self._deaths = self._client.deaths(self._label, self._queried)
        if self._deaths and self._over.is_set():
            self._deaths.close()
        for name in self._deaths or ():
            self._ended(name)
