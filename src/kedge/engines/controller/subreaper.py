"""Being the one to whom orphans come: prctl(2), PR_SET_CHILD_SUBREAPER. Linux only; elsewhere nothing happens."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Let the processes of a supervisor that was killed become children of this process, which can then end them."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
