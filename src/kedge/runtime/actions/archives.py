"""Reading untrusted archives entry by entry. Nothing is written here.

Python's readers trust what they read: sizes of headers, offsets that point back, times that are not numbers. Whatever
they raise for an invalid archive is turned into ActionFailed (data_corrupt).
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
_MAX_GLOBAL_ENTRIES = 1000  # in the global header of a tar archive
_LONGEST_TARGET = 4095  # bytes
_LATEST = 2.0**34  # seconds since 1970: about the latest time that file systems can store, in the year 2514
_DAMAGED = (None, errno.EINVAL, errno.EFBIG, errno.EOVERFLOW)  # OSErrors caused by wrong numbers in an archive


class ArchiveEntry(NamedTuple):
    """One member: its name, kind, mode, time (None: unknown), and the target of a link. `pieces` reads its content."""

    name: str
    kind: str
    mode: int = 0o644
    time: float | None = None
    target: str = ""
    pieces: Callable[[], Iterator[bytes]] = lambda: iter(())


def is_archive(name: str) -> bool:
    """Whether a file with this name is unpacked. ActionFailed for a tar file whose compression Python cannot read."""
    lower = name.lower()
    if lower.endswith((".tar.zst", ".tzst", ".tar.lz4", ".tar.z")):
        raise _unsupported(name, "its compression is not supported")
    return lower.endswith((*_TARS, ".zip"))


def entries(path: str, name: str, limit: int) -> Iterator[ArchiveEntry]:
    """The members of the archive `path`, called `name`. At most twice `limit` bytes of a tar archive are decompressed,
    which also limits data hidden between members."""
    with _reading(name):
        yield from (_zip(path, name) if name.lower().endswith(".zip") else _tar(path, name, 2 * limit + _PIECE))


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn the errors of Python's archive readers into ActionFailed. No other code may run inside."""
    try:
        yield
    except (ActionFailed, MemoryError):
        raise
    except NotImplementedError as error:
        raise _unsupported(name, str(error)) from error
    except Exception as error:  # the readers raise many types for hostile archives
        if isinstance(error, OSError) and error.errno not in _DAMAGED:  # the disk cannot be read
            raise
        reason = plain(str(error)) or type(error).__name__
        raise ActionFailed(f"{name} is damaged or not an archive: {reason}", "data_corrupt") from error


def _pieces(name: str, opened: Callable[[], IO[bytes]]) -> Iterator[bytes]:
    with _reading(name), opened() as file:
        while piece := file.read(_PIECE):
            yield piece


def _unsupported(name: str, why: str) -> ActionFailed:
    return ActionFailed(
        f"{name} cannot be unpacked ({why}); set 'unpack: false' and unpack it with a command", "bad_config"
    )


class _Stream:
    """A decompressed archive, read from start to end. Members with negative sizes are refused, because tarfile would
    loop for ever."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file, self._limit, self._position = file, limit, 0
        self.last = b""  # the piece that was read last

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _PIECE + _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header has {size} bytes")
        self.last = self._file.read(size)
        self._position += len(self.last)
        if self._position > self._limit:
            raise tarfile.ReadError("it is far larger than its members")
        return self.last

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        if position < self._position:
            raise tarfile.ReadError("a member has a negative size")
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
                archive.members.clear()  # type: ignore[attr-defined]  # else all members of a huge one stay in memory
                if len(archive.pax_headers) > _MAX_GLOBAL_ENTRIES:
                    raise tarfile.ReadError("its global header has too many entries")
        if stream.last.strip(b"\0"):
            raise tarfile.ReadError("the data after a member is not a header")
        while stream.read(_PIECE):  # read to the end, because checksums of compressed data come last
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
    mode, member_name = member.external_attr >> 16, member.orig_filename.replace("\\", "/")
    if member_name.endswith("/"):
        return ArchiveEntry(member_name, FOLDER)
    if member.flag_bits & 1:
        raise _unsupported(name, f"{member_name!r} is encrypted")
    if stat.S_ISLNK(mode):
        if member.file_size > _LONGEST_TARGET:
            raise ActionFailed(
                f"{name} is not safe to unpack: {member_name!r} is a link of {member.file_size} bytes", "data_corrupt"
            )
        return ArchiveEntry(member_name, LINK, target=archive.read(member).decode(errors="surrogateescape"))
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return ArchiveEntry(member_name, OTHER)
    return ArchiveEntry(member_name, FILE, mode or 0o644, pieces=lambda: _pieces(name, lambda: archive.open(member)))
