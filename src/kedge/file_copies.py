"""Copies the content of files: by sharing their blocks where the file system can, otherwise byte by byte. Holes stay
holes."""

from __future__ import annotations

import errno
import fcntl
import os
import sys

from kedge.light.contextlib import suppress
from kedge.light.types import Iterator
from kedge.own_files import write_all

BLOCK = 512  # bytes, the unit of st_blocks

_CHUNK = 16 << 20
_CLONE = 0x40049409  # FICLONE (linux/fs.h)
# The file system or the kernel cannot do it in the quick way.
_UNSUPPORTED = frozenset({
    errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTTY,
})  # fmt: skip


def copy_content(source: int, target: int) -> Iterator[int]:
    """Copy the whole content of a file to an empty one, and yield the number of bytes of each step. Both are
    descriptors at the beginning of their file."""
    info = os.fstat(source)
    if info.st_size and _clone(source, target):
        yield info.st_size
    elif info.st_blocks * BLOCK >= info.st_size:
        yield from _copy_bytes(source, target, sys.maxsize)
    else:
        for start, end in _written_parts(source):
            os.lseek(source, start, os.SEEK_SET)
            os.lseek(target, start, os.SEEK_SET)
            yield from _copy_bytes(source, target, end - start)
        os.ftruncate(target, info.st_size)


def stored_size(info: os.stat_result) -> int:
    """The bytes of a file's content that a copy takes: holes take none."""
    return min(info.st_size, info.st_blocks * BLOCK)


def shares_blocks(folder: str | os.PathLike[str]) -> bool:
    """Whether copies in this folder can share the blocks of their original; False if that cannot be found out."""
    if not hasattr(os, "O_TMPFILE"):  # not on Linux
        return False
    with suppress(OSError):
        source, target = (os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o600) for _ in range(2))
        try:
            write_all(source, b"x")
            return _clone(source, target)
        finally:
            os.close(source)
            os.close(target)
    return False


def _clone(source: int, target: int) -> bool:
    """Let the target share all blocks of the source. Returns whether the file system can do that."""
    try:
        fcntl.ioctl(target, _CLONE, source)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    return True


def _written_parts(fd: int) -> Iterator[tuple[int, int]]:
    """The parts of a file between holes, each as its first offset and the offset after its last byte."""
    end = 0
    with suppress(OSError):  # ENXIO: no more data
        while True:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
            yield start, end


def _copy_bytes(source: int, target: int, left: int) -> Iterator[int]:
    """Copy up to `left` bytes; yields the number of each step. Within a file system the kernel may share blocks."""
    if hasattr(os, "copy_file_range"):
        try:
            while count := os.copy_file_range(source, target, min(left, _CHUNK)):
                left -= count
                yield count
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    # Both descriptors are where the fast path stopped; usually that is the end.
    while data := os.read(source, min(left, _CHUNK)):
        write_all(target, data)
        left -= len(data)
        yield len(data)
