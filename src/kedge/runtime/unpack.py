"""Unpacking archives that nobody vouches for.

Nothing is ever written through a link: files and folders come first, into a new folder; then links within the archive.
Names that leave the folder, links that lead out of it, devices and the like are errors, and so is an archive that
unpacks to much more than it is.
"""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from kedge.runtime.failed import Failed
from kedge.runtime.httpget import human

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma")
_RATIO, _SMALL = 200, 1 << 30  # an archive may hold so many times its size, or this
_OVERHEAD = 512  # bytes that an entry counts besides its content
_FILE, _FOLDER, _LINK, _HARD_LINK = "file", "folder", "link", "hard link"
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    NotImplementedError,
)


class Entry(NamedTuple):
    """One member: its name, what it is, its mode and time, where a link leads, how to read a file."""

    name: str
    kind: str
    mode: int = 0o644
    time: float | None = None
    target: str = ""
    open: Callable[[], IO[bytes]] | None = None


def is_archive(name: str) -> bool:
    """Whether a file of this name is unpacked. Failed for a .tar. of a kind that Python cannot read."""
    lower = name.lower()
    if lower.endswith((".tar.zst", ".tzst", ".tar.lz4", ".tar.z")):
        raise Failed(f"{name} cannot be unpacked; say 'unpack: false' and unpack it with a command", "bad_config")
    return lower.endswith((*_TARS, ".zip"))


def unpack(path: str, name: str, folder: str, limit: int | None = None) -> None:
    """Unpack the archive `path`, called `name`, into the empty `folder`; at most `limit` bytes.

    Failed (data_corrupt) if it is damaged or not to be trusted, OSError as it comes."""
    limit = max(_SMALL, _RATIO * os.stat(path).st_size) if limit is None else limit
    entries = _zip_entries(path) if name.lower().endswith(".zip") else _tar_entries(path)
    try:
        _Unpacking(name, folder, limit).run(entries)
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Failed(f"{name} is damaged, or no archive: {error or type(error).__name__}", "data_corrupt") from error


class _Unpacking:
    def __init__(self, archive: str, folder: str, limit: int) -> None:
        self._archive, self._folder, self._limit = archive, folder, limit
        self._size = 0

    def run(self, entries: Iterator[Entry]) -> None:
        links = []
        for entry in entries:
            path = self._path(entry.name)
            self._count(_OVERHEAD)
            if entry.kind == _FILE:
                self._write(entry, path)
            elif entry.kind == _FOLDER:
                self._make(path)
            elif entry.kind in (_LINK, _HARD_LINK):
                self._make(os.path.dirname(path))  # now: later it might lead through a link
                links.append((entry, path))
            else:
                raise self._refused(entry, f"is a {entry.kind}")
        for entry, path in sorted(links, key=lambda link: link[0].kind):  # hard links come before symlinks
            self._link(entry, path)

    def _path(self, name: str) -> str:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise Failed(f"{self._archive} is not to be trusted: {name!r} leads out of it", "data_corrupt")
        return os.path.join(self._folder, *parts)

    def _write(self, entry: Entry, path: str) -> None:
        assert entry.open
        self._make(os.path.dirname(path))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with entry.open() as source, open(os.open(path, flags, 0o600), "wb") as file:
            while piece := source.read(1 << 20):
                self._count(len(piece))
                file.write(piece)
        os.chmod(path, entry.mode & 0o755 | 0o600)
        if entry.time is not None:
            os.utime(path, (entry.time, entry.time))

    def _make(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise Failed(
                f"{self._archive} unpacks to more than {human(self._limit)}; if it should, raise max_unpacked_bytes",
                "data_corrupt",
            )

    def _link(self, entry: Entry, path: str) -> None:
        if entry.kind == _HARD_LINK:
            source = self._path(entry.target)
            if not os.path.isfile(source):
                raise self._refused(entry, f"is a link to {entry.target!r}, which is no file")
            os.link(source, path, follow_symlinks=False)
            return
        if not _stays_inside(entry):
            raise self._refused(entry, f"is a link that may lead out of it: {entry.target!r}")
        os.symlink(entry.target, path)

    def _refused(self, entry: Entry, what: str) -> Failed:
        return Failed(f"{self._archive} is not to be trusted: {entry.name!r} {what}", "data_corrupt")


def _stays_inside(entry: Entry) -> bool:
    """Whether a symlink leads into its archive whatever other links there are: first up, as far as real folders go, and
    then only down. `x/..` may be anywhere if x is a link."""
    parts = [part for part in entry.target.split("/") if part not in ("", ".")]
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    depth = len([part for part in entry.name.split("/") if part not in ("", ".")]) - 1
    return not entry.target.startswith("/") and bool(entry.target) and up <= depth and ".." not in parts[up:]


def _tar_entries(path: str) -> Iterator[Entry]:
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            kind = (
                _FILE if member.isreg() else _FOLDER if member.isdir() else _LINK if member.issym()
                else _HARD_LINK if member.islnk() else "device or the like"
            )  # fmt: skip

            def content(member: tarfile.TarInfo = member) -> IO[bytes]:
                file = archive.extractfile(member)
                assert file, "it is a regular file"
                return file

            yield Entry(member.name, kind, member.mode, float(member.mtime), member.linkname, content)
            archive.members.clear()  # type: ignore[attr-defined]  # else every member of a huge archive stays in memory


def _zip_entries(path: str) -> Iterator[Entry]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            name = member.filename.replace("\\", "/")
            if member.is_dir():
                yield Entry(name, _FOLDER)
            elif stat.S_ISLNK(mode):
                if member.file_size > 4096:
                    raise Failed(f"{name!r} is a link of {member.file_size} bytes", "data_corrupt")
                yield Entry(name, _LINK, target=archive.read(member).decode(errors="surrogateescape"))
            elif mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                yield Entry(name, "device or the like")
            else:
                yield Entry(name, _FILE, mode or 0o644, open=lambda member=member: archive.open(member))  # type: ignore[misc]
