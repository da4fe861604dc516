"""How a driver leaves a run that it may not, or cannot, go on with: at once, and without ending anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from kedge.errors import EXIT_FAILED

Leave = Callable[[str], NoReturn]  # with the reason


def leave(why: str) -> NoReturn:
    """End this process, and nothing else: its Job starts it again, and whatever it did until then would be done to the
    job of another driver. May be called in any thread."""
    print(f"kedge: {why}; this driver leaves", file=sys.stderr, flush=True)
    os._exit(EXIT_FAILED)
