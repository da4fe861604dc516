"""Listing the bundles in the cache, and removing those that are no longer used.

Lock files are never removed: otherwise two builders could each hold a different one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kedge.bundle import cache, repair, uses


class Kept(NamedTuple):
    """A bundle in the cache: its name there, its size in bytes, and when it was last used (seconds since 1970)."""

    name: str
    size: int
    used: float


def entries() -> list[Kept]:
    """Every bundle, the latest used first."""
    found = (_kept(place) for place in _places() if place.exists())
    return sorted(found, key=lambda kept: -kept.used)


def prune(
    unused_sec: float = 0.0,
    used: Callable[[], Collection[Path]] = tuple,
    has_ended: Callable[[Path], bool] = lambda run: False,
) -> list[Kept]:
    """Remove the bundles that were not used for `unused_sec` and that no job uses now. Return the removed ones.

    A job on this machine holds the lock of its bundle. `used` returns those of jobs in clusters, where no lock
    reaches; it is asked while the bundle is locked, because a submission holds that lock until it can be known.
    `has_ended` is asked about the folders of runs that have noted their use."""
    limit, gone = time.time() - unused_sec, []
    for place in _places():
        with suppress(BlockingIOError), cache.locked(place, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if place.exists() and (kept := _kept(place)).used <= limit and not _is_used(place, used, has_ended):
                os.rename(place, place.with_name(f".{place.name}.gone"))
                gone.append(kept)
                repair.distrust(place)
            cache.sweep(place)
    return gone


def _is_used(place: Path, used: Callable[[], Collection[Path]], has_ended: Callable[[Path], bool]) -> bool:
    return uses.is_used(place, has_ended) or place in used()


def _places() -> Iterator[Path]:
    """The paths of present and former bundles: each has a lock file."""
    return (lock.with_suffix("") for lock in cache.folder().glob("*.lock"))


def _kept(place: Path) -> Kept:
    size = sum(file.lstat().st_size for file in place.rglob("*") if not file.is_dir())
    return Kept(place.name, size, place.stat().st_mtime)
