"""How a driver leaves a run that it may not, or cannot, go on with: at once, and without ending anything."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn, Protocol

from kedge.errors import EXIT_FAILED

Leave = Callable[[str], NoReturn]  # with the reason
_RELEASE_SEC = 5.0
_RETRY_SEC = 1.0
_told: list[str] = []  # the last error: each is printed once


class Released(Protocol):
    """The Lease."""

    def release(self) -> None: ...


def leave(why: str) -> NoReturn:
    """End this process, and nothing else: its Job starts it again, and whatever it did until then would be done to the
    job of another driver. May be called in any thread."""
    print(f"kedge: {why}; this driver leaves", file=sys.stderr, flush=True)
    os._exit(EXIT_FAILED)


def give_up(lease: Released) -> NoReturn:
    """The kubelet ends this pod: leave, and let the next driver begin at once. Called in the main thread, which does
    nothing any more; it may have been interrupted anywhere, so another thread asks the API server."""

    def release() -> None:
        lease.release()
        leave("its pod is being ended")

    threading.Thread(target=release, daemon=True).start()
    time.sleep(_RELEASE_SEC)
    leave("its pod is being ended")


def wait_for_api(error: Exception) -> None:
    """The API server does not answer, or refuses what this driver cannot do without: before another try."""
    if str(error) not in _told:
        _told[:] = [str(error)]
        print(f"kedge: {error}; it is tried again", file=sys.stderr, flush=True)
    time.sleep(_RETRY_SEC)
