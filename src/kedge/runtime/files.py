"""Plain files without buffering: every write is complete when the call returns, or an OSError."""

from __future__ import annotations

import errno
import os

from kedge import untrusted
from kedge.own_files import clear, open_own

_LARGEST = 64 << 20  # bytes that are read as a whole

Buffer = bytes | bytearray | memoryview

# What a write says when the file system, the quota, the device or RLIMIT_FSIZE does not take any more.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


def write_all(fd: int, data: Buffer) -> None:
    """Write every byte of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_file(path: str, data: bytes, mode: int = 0o644) -> None:
    """Make or replace `path`; what stood there before (a symlink, too) is removed, not followed."""
    remove(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.fchmod(fd, mode)  # whatever the umask
        write_all(fd, data)
    finally:
        os.close(fd)


def write_over(path: str, data: bytes) -> None:
    """Make or overwrite `path` where it is: it may be a mount. What is no regular file is removed."""
    fd = open_own(path, os.O_WRONLY | os.O_TRUNC, 0o644)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def write_synced(path: str, data: bytes) -> None:
    """Replace `path` as a whole and durably: readers see the old file or the new one, never a part."""
    partial = f"{path}.partial"
    remove(partial)  # the task may have put something there
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.rename(partial, path)
    except IsADirectoryError:  # the task's
        remove(path)
        os.rename(partial, path)


def read_file(path: str) -> bytes:
    """The whole of a regular file. OSError also for another kind, as a pipe, and for one larger than 64 MiB."""
    return untrusted.read_path(path, _LARGEST)


def remove(path: str) -> None:
    """Remove whatever is there."""
    clear(path)


def link(target: str, path: str) -> None:
    """Make `path` a symlink to `target`, in place of what stood there."""
    remove(path)
    os.symlink(target, path)


class Faults:
    """The first log or event file that could not be written. Whoever writes notes it here and goes on without the
    file; whoever supervises sees it and stops the task."""

    def __init__(self) -> None:
        self.first: tuple[str, OSError] | None = None

    def note(self, path: str, error: OSError) -> None:
        if self.first is None:
            # The traceback would keep the caller's buffers in use, which could then not be resized.
            self.first = (path, error.with_traceback(None))
