"""What is in the cache of bundles, and what of it nobody needs any more.

Locks stay, and are empty: where one is removed, two builders could each hold its own.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kedge.bundle import cache, repair


class Kept(NamedTuple):
    """A bundle in the cache: its name there, its size in bytes, and when it was last used (seconds since 1970)."""

    name: str
    size: int
    used: float


def entries() -> list[Kept]:
    """Every bundle, the latest used first."""
    found = (_kept(place) for place in _places() if place.exists())
    return sorted(found, key=lambda kept: -kept.used)


def prune(unused_sec: float = 0.0) -> list[Kept]:
    """Remove what nobody has used for so many seconds and no job uses now. Gives what went."""
    limit, gone = time.time() - unused_sec, []
    for place in _places():
        with suppress(BlockingIOError), cache.locked(place, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if place.exists() and (kept := _kept(place)).used <= limit:
                os.rename(place, place.with_name(f".{place.name}.gone"))
                gone.append(kept)
                repair.distrust(place)
            cache.sweep(place)
    return gone


def _places() -> Iterator[Path]:
    """Where bundles are or were: each has its lock."""
    return (lock.with_suffix("") for lock in cache.folder().glob("*.lock"))


def _kept(place: Path) -> Kept:
    size = sum(file.lstat().st_size for file in place.rglob("*") if not file.is_dir())
    return Kept(place.name, size, place.stat().st_mtime)
