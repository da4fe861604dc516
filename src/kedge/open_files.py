"""This process's limit of open files."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_limit() -> int:
    """Raise this process's soft limit of open files to the hard limit, where the system lets it. Returns the old soft
    limit, for the user's programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
