"""Unpacking archives that nobody vouches for.

Nothing is ever written through a link: files and folders come first, into a new folder; then links within the archive.
Names that leave the folder, links that lead out of it, devices and the like are errors, and so is an archive that
unpacks to much more than it is.
"""

from __future__ import annotations

import errno
import os

from kedge.runtime.actions import archives
from kedge.runtime.actions.addresses import plain
from kedge.runtime.actions.archives import FILE, FOLDER, HARD_LINK, LINK, ArchiveEntry
from kedge.runtime.actions.base import ActionFailed
from kedge.runtime.actions.http_download import human

_RATIO, _SMALL = 200, 1 << 30  # an archive may hold so many times its size, or this
_OVERHEAD, _LINK_OVERHEAD = 512, 4096  # bytes that an entry counts besides its content
_LONGEST_NAME, _LONGEST_PATH, _DEEPEST = 255, 4000, 256  # bytes, bytes, folders in folders
_CONTRADICTIONS = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


def unpack(path: str, name: str, folder: str, limit: int | None = None) -> None:
    """Unpack the archive `path`, called `name`, into the empty `folder`; at most `limit` bytes.

    ActionFailed (data_corrupt) if it is damaged or not to be trusted, OSError as it comes."""
    limit = max(_SMALL, _RATIO * os.stat(path).st_size) if limit is None else limit
    _Unpacking(plain(name), folder, limit).run(path, name)


class _Unpacking:
    def __init__(self, archive: str, folder: str, limit: int) -> None:
        self._archive, self._folder, self._limit = archive, folder, limit
        self._size = 0

    def run(self, file: str, name: str) -> None:
        links = []
        for entry in archives.entries(file, name, self._limit):
            path = self._path(entry, entry.name)
            self._count(_OVERHEAD)
            if entry.kind in (LINK, HARD_LINK):
                self._count(_LINK_OVERHEAD + len(entry.name) + len(entry.target))  # they are remembered
                self._put(entry, FOLDER, os.path.dirname(path))  # now: later it might lead through a link
                links.append((entry, path))
            elif entry.kind in (FILE, FOLDER):
                self._put(entry, entry.kind, path)
            else:
                raise self._refused(entry, f"is a {entry.kind}")
        for entry, path in sorted(links, key=lambda link: link[0].kind):  # hard links come before symlinks
            self._put(entry, entry.kind, path)

    def _put(self, entry: ArchiveEntry, kind: str, path: str) -> None:
        puts = {FILE: self._write, FOLDER: self._make, LINK: self._link, HARD_LINK: self._hard_link}
        try:
            puts[kind](entry, path)
        except OSError as error:
            if error.errno in _CONTRADICTIONS:
                raise self._refused(entry, "is there twice, as different things") from error
            raise OSError(error.errno, error.strerror, plain(path)) from error

    def _path(self, entry: ArchiveEntry, name: str) -> str:
        """Where a name leads. ActionFailed for a name that leads out, or that no file can have."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts:
            raise self._refused(entry, f"leads out of it: '{plain(name)}'" if name != entry.name else "leads out of it")
        if "\0" in name or (not parts and entry.kind != FOLDER):
            raise self._refused(entry, "is no name of a file")
        path = os.path.join(self._folder, *parts)
        sizes = [len(part.encode(errors="surrogateescape")) for part in (*parts, path)]
        if max(sizes[:-1], default=0) > _LONGEST_NAME or sizes[-1] > _LONGEST_PATH or len(parts) > _DEEPEST:
            raise self._refused(entry, f"is too long or too deep for a file's name ({len(name)} characters)")
        return path

    def _write(self, entry: ArchiveEntry, path: str) -> None:
        self._make(entry, os.path.dirname(path))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            for piece in entry.pieces():
                self._count(len(piece))
                file.write(piece)
        os.chmod(path, entry.mode & 0o755 | 0o600)
        if entry.time is not None:
            os.utime(path, (entry.time, entry.time))

    def _make(self, _entry: ArchiveEntry, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise ActionFailed(
                f"{self._archive} unpacks to more than {human(self._limit)}; if it should, raise max_unpacked_bytes",
                "data_corrupt",
            )

    def _hard_link(self, entry: ArchiveEntry, path: str) -> None:
        source = self._path(entry, entry.target)
        if not os.path.isfile(source):
            raise self._refused(entry, f"is a link to '{plain(entry.target)}', which is no file")
        if not (os.path.exists(path) and os.path.samefile(source, path)):  # as tar does with a file that it got twice
            os.link(source, path, follow_symlinks=False)

    def _link(self, entry: ArchiveEntry, path: str) -> None:
        if not _stays_inside(entry):
            raise self._refused(entry, f"is a link that may lead out of it: '{plain(entry.target)}'")
        if os.path.islink(path):  # what was added to an archive later counts
            os.unlink(path)
        os.symlink(entry.target, path)

    def _refused(self, entry: ArchiveEntry, what: str) -> ActionFailed:
        return ActionFailed(f"{self._archive} is not to be trusted: '{plain(entry.name)}' {what}", "data_corrupt")


def _stays_inside(entry: ArchiveEntry) -> bool:
    """Whether a symlink leads into its archive whatever other links there are: first up, as far as real folders go, and
    then only down. `x/..` may be anywhere if x is a link."""
    parts = [part for part in entry.target.split("/") if part not in ("", ".")]
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    depth = len([part for part in entry.name.split("/") if part not in ("", ".")]) - 1
    plausible = 0 < len(entry.target.encode(errors="surrogateescape")) <= _LONGEST_PATH and "\0" not in entry.target
    return plausible and not entry.target.startswith("/") and up <= depth and ".." not in parts[up:]
