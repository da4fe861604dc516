"""Unpacking untrusted archives.

Nothing is ever written through a link: files and folders are written first, into a new folder, then links within the
archive. Names that leave the folder, links that lead out of it, devices and the like are errors, and so is an archive
that unpacks to far more than its own size.
"""

from __future__ import annotations

import errno
import os

from kedge.runtime.actions import archives
from kedge.runtime.actions.addresses import plain
from kedge.runtime.actions.archives import FILE, FOLDER, HARD_LINK, LINK, ArchiveEntry
from kedge.runtime.actions.base import ActionFailed
from kedge.runtime.actions.http_download import format_size

_RATIO, _SMALL = 200, 1 << 30  # the default limit: this multiple of the archive's size, at least this many bytes
_OVERHEAD, _LINK_OVERHEAD = 512, 4096  # bytes that an entry counts in addition to its content
_LONGEST_NAME, _LONGEST_PATH, _DEEPEST = 255, 4000, 256  # bytes, bytes, nested folders
_CONTRADICTIONS = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


def unpack(path: str, name: str, folder: str, limit: int | None = None) -> None:
    """Unpack the archive `path`, called `name`, into the empty `folder`; at most `limit` bytes.

    ActionFailed (data_corrupt) if it is damaged or unsafe. OSError if a file cannot be written."""
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
                self._count(_LINK_OVERHEAD + len(entry.name) + len(entry.target))  # links are kept in memory
                self._put(entry, FOLDER, os.path.dirname(path))  # now, because later the path might contain a link
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
                raise self._refused(entry, "appears twice with different types") from error
            raise OSError(error.errno, error.strerror, plain(path)) from error

    def _path(self, entry: ArchiveEntry, name: str) -> str:
        """The path to unpack a name to. ActionFailed if it leads out of the folder or is not a valid file name."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts:
            raise self._refused(entry, f"leads out of it: '{plain(name)}'" if name != entry.name else "leads out of it")
        if "\0" in name or (not parts and entry.kind != FOLDER):
            raise self._refused(entry, "is not a valid file name")
        path = os.path.join(self._folder, *parts)
        sizes = [len(part.encode(errors="surrogateescape")) for part in (*parts, path)]
        if max(sizes[:-1], default=0) > _LONGEST_NAME or sizes[-1] > _LONGEST_PATH or len(parts) > _DEEPEST:
            raise self._refused(entry, f"is too long or too deeply nested for a path ({len(name)} characters)")
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
                f"{self._archive} unpacks to more than {format_size(self._limit)}; if that is right, raise "
                "max_unpacked_bytes",
                "data_corrupt",
            )

    def _hard_link(self, entry: ArchiveEntry, path: str) -> None:
        source = self._path(entry, entry.target)
        if not os.path.isfile(source):
            raise self._refused(entry, f"is a link to '{plain(entry.target)}', which is not a file")
        if not (os.path.exists(path) and os.path.samefile(source, path)):  # tar stores a file added twice like this
            os.link(source, path, follow_symlinks=False)

    def _link(self, entry: ArchiveEntry, path: str) -> None:
        if not _stays_inside(entry):
            raise self._refused(entry, f"is a link that may lead out of it: '{plain(entry.target)}'")
        if os.path.islink(path):  # a later entry replaces an earlier one
            os.unlink(path)
        os.symlink(entry.target, path)

    def _refused(self, entry: ArchiveEntry, what: str) -> ActionFailed:
        return ActionFailed(f"{self._archive} is not safe to unpack: '{plain(entry.name)}' {what}", "data_corrupt")


def _stays_inside(entry: ArchiveEntry) -> bool:
    """Whether a symlink stays within the archive, whatever other links there are: its target may first go up, as far as
    the entry's own folders go, and then only down. `x/..` could be anywhere if x is a link."""
    parts = [part for part in entry.target.split("/") if part not in ("", ".")]
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    depth = len([part for part in entry.name.split("/") if part not in ("", ".")]) - 1
    plausible = 0 < len(entry.target.encode(errors="surrogateescape")) <= _LONGEST_PATH and "\0" not in entry.target
    return plausible and not entry.target.startswith("/") and up <= depth and ".." not in parts[up:]
