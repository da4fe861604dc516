"""A cache of fetched documents by the SHA-256 of their bytes, so that a locked job needs no network.

Runs share the cache without a lock: a file is moved into place atomically, its name is the digest of its content, and
a reader that finds it missing or damaged fetches the document again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kedge import untrusted, xdg
from kedge.own_files import clear, replace_file

_MAX_BYTES = 64 << 20  # of a document


def default_folder(environment: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/kedge/items`, by default `~/.cache/kedge/items`. CannotRun: there is no home folder."""
    return Path(xdg.cache(xdg.DOCUMENTS, environment))


def digest(data: bytes) -> str:
    """The SHA-256 of the bytes in hex."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


class Cached(NamedTuple):
    """A document in the cache: its digest, its size in bytes, and when it was last used (seconds since 1970)."""

    sha256: str
    size: int
    used: float


class DocumentCache:
    """The cache in one folder, which is created by the first `put`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, sha256: str) -> bytes | None:
        """The document with this digest; None if it is missing or damaged."""
        path = self.folder / sha256
        try:
            data = untrusted.read(self.folder, sha256, _MAX_BYTES)
        except OSError:
            return None
        if digest(data) != sha256:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return data

    def put(self, data: bytes) -> None:
        """Store a document. A failure to write is ignored, because it only costs the next run a download."""
        with suppress(OSError):
            self._put(self.folder / digest(data), data)

    def _put(self, path: Path, data: bytes) -> None:
        if path.exists():
            os.utime(path)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, data, synced=False)  # the digest shows what a loss of power has left

    def entries(self) -> list[Cached]:
        """All documents, the most recently used first."""
        return sorted(self._entries(), key=lambda entry: -entry.used)

    def _entries(self) -> Iterator[Cached]:
        for path in self.folder.glob("[0-9a-f]*"):
            with suppress(OSError):  # another run may prune at the same time
                status = path.lstat()
                yield Cached(path.name, status.st_size, status.st_mtime)

    def prune(self, unused_sec: float = 0.0) -> list[Cached]:
        """Delete documents that were not used for `unused_sec` seconds, and leftovers of writers that died. Returns the
        deleted documents."""
        limit = time.time() - unused_sec
        deleted = [entry for entry in self.entries() if entry.used <= limit]
        for entry in deleted:
            clear(self.folder / entry.sha256)
        for path in self.folder.glob(".*"):
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < time.time() - 3600:
                    clear(path)
        return deleted
