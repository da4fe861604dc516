"""This process's limit of open files."""

from __future__ import annotations

import resource

from kedge.light.contextlib import suppress


def raise_limit() -> int:
    """Raise this process's soft limit of open files to the hard limit, where the system lets it. Returns the old soft
    limit, for the user's programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def raise_limit_to(most: int) -> int:
    """Raise this process's soft limit of open files to `most`, or to the hard limit if that is lower. Returns the limit
    that it has now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return wanted if soft == resource.RLIM_INFINITY else max(soft, 0)
