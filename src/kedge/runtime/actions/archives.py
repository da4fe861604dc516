"""What is in an archive, entry by entry, whoever made it. Nothing is written here.

Python's readers believe what they read: sizes of headers, offsets that lead back, times that are no numbers. Whatever
they raise for it, an archive that makes no sense is ActionFailed (data_corrupt).
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import lzma
import math
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from kedge.runtime.actions.addresses import plain
from kedge.runtime.actions.base import ActionFailed

FILE, FOLDER, LINK, HARD_LINK, OTHER = "file", "folder", "link", "hard link", "device or the like"
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma")
_COMPRESSED: tuple[tuple[bytes, Callable[[str], Any]], ...] = (
    (b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open), (b"\x5d\0\0", lzma.open),
)  # fmt: skip
_PIECE = 1 << 20
_LONGEST_HEADER = 1 << 20  # bytes; names have at most 4 KiB
_MOST_DEFAULTS = 1000  # of a tar archive for all of its members
_LONGEST_TARGET = 4095  # bytes
_LATEST = 2.0**34  # seconds since 1970: what file systems know ends about there, in the year 2514
_DAMAGED = (None, errno.EINVAL, errno.EFBIG, errno.EOVERFLOW)  # OSErrors that the archive's own numbers lead to


class ArchiveEntry(NamedTuple):
    """One member: its name, what it is, its mode and time (None: not known), where a link leads; `pieces` reads it."""

    name: str
    kind: str
    mode: int = 0o644
    time: float | None = None
    target: str = ""
    pieces: Callable[[], Iterator[bytes]] = lambda: iter(())


def is_archive(name: str) -> bool:
    """Whether a file of this name is unpacked. ActionFailed for a .tar. of a kind that Python cannot read."""
    lower = name.lower()
    if lower.endswith((".tar.zst", ".tzst", ".tar.lz4", ".tar.z")):
        raise _cannot(name, "its compression is not known here")
    return lower.endswith((*_TARS, ".zip"))


def entries(path: str, name: str, limit: int) -> Iterator[ArchiveEntry]:
    """The members of the archive `path`, called `name`. What a tar archive has to be decompressed for them is at most
    twice `limit` bytes, so that what is hidden between members counts, too."""
    with _read(name):
        yield from (_zip(path, name) if name.lower().endswith(".zip") else _tar(path, name, 2 * limit + _PIECE))


@contextlib.contextmanager
def _read(name: str) -> Iterator[None]:
    """Nothing but readers of archives runs inside."""
    try:
        yield
    except (ActionFailed, MemoryError):
        raise
    except NotImplementedError as error:
        raise _cannot(name, str(error)) from error
    except Exception as error:  # theirs for hostile archives; a disk that cannot be read is none of these
        if isinstance(error, OSError) and error.errno not in _DAMAGED:
            raise
        said = plain(str(error)) or type(error).__name__
        raise ActionFailed(f"{name} is damaged, or no archive: {said}", "data_corrupt") from error


def _pieces(name: str, opened: Callable[[], IO[bytes]]) -> Iterator[bytes]:
    with _read(name), opened() as file:
        while piece := file.read(_PIECE):
            yield piece


def _cannot(name: str, why: str) -> ActionFailed:
    return ActionFailed(
        f"{name} cannot be unpacked ({why}); say 'unpack: false' and unpack it with a command", "bad_config"
    )


class _Stream:
    """A decompressed archive, read from its beginning to its end. Members whose sizes lead back are refused: tarfile
    would go round in circles."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file, self._limit, self._position = file, limit, 0
        self.last = b""  # what was read last

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _PIECE + _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header has {size} bytes")
        self.last = self._file.read(size)
        self._position += len(self.last)
        if self._position > self._limit:
            raise tarfile.ReadError("it holds far more than its members")
        return self.last

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        if position < self._position:
            raise tarfile.ReadError("a member has less than no bytes")
        while position > self._position and self.read(min(_PIECE, position - self._position)):
            continue


def _tar(path: str, name: str, limit: int) -> Iterator[ArchiveEntry]:
    with open(path, "rb") as file:
        start = file.read(6)
    opened = next((each for magic, each in _COMPRESSED if start.startswith(magic)), _plain_file)
    with opened(path) as file:
        stream: Any = _Stream(file, limit)
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                yield _tar_entry(archive, member, name)
                archive.members.clear()  # type: ignore[attr-defined]  # else all of a huge archive stay in memory
                if len(archive.pax_headers) > _MOST_DEFAULTS:
                    raise tarfile.ReadError("its global header has too many entries")
        if stream.last.strip(b"\0"):
            raise tarfile.ReadError("what follows a member is no header")
        while stream.read(_PIECE):  # sums of what was compressed come last
            continue


def _plain_file(path: str) -> IO[bytes]:
    return open(path, "rb")


def _tar_entry(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> ArchiveEntry:
    kind = (
        FILE if member.isreg() else FOLDER if member.isdir() else LINK if member.issym()
        else HARD_LINK if member.islnk() else OTHER
    )  # fmt: skip

    def opened() -> IO[bytes]:
        file = archive.extractfile(member)
        assert file, "it is a regular file"
        return file

    time = float(member.mtime)
    known = math.isfinite(time) and abs(time) <= _LATEST
    return ArchiveEntry(
        member.name, kind, member.mode, time if known else None, member.linkname, lambda: _pieces(name, opened)
    )


def _zip(path: str, name: str) -> Iterator[ArchiveEntry]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            yield _zip_entry(archive, member, name)


def _zip_entry(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> ArchiveEntry:
    mode, called = member.external_attr >> 16, member.orig_filename.replace("\\", "/")
    if called.endswith("/"):
        return ArchiveEntry(called, FOLDER)
    if member.flag_bits & 1:
        raise _cannot(name, f"{called!r} is encrypted")
    if stat.S_ISLNK(mode):
        if member.file_size > _LONGEST_TARGET:
            raise ActionFailed(
                f"{name} is not to be trusted: {called!r} is a link of {member.file_size} bytes", "data_corrupt"
            )
        return ArchiveEntry(called, LINK, target=archive.read(member).decode(errors="surrogateescape"))
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return ArchiveEntry(called, OTHER)
    return ArchiveEntry(called, FILE, mode or 0o644, pieces=lambda: _pieces(name, lambda: archive.open(member)))
