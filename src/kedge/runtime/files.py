"""Unbuffered file access: when a call returns, all data has been written; otherwise it raises OSError."""

from __future__ import annotations

import errno
import os

from kedge import untrusted
from kedge.own_files import clear, open_own, replace_own, write_all

_MAX_READ = 64 << 20  # bytes of a file that is read as a whole

# The errors of a write that the file system, the quota, the device or RLIMIT_FSIZE has no room for.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


def write_file(path: str, data: bytes, mode: int = 0o644) -> None:
    """Create or replace `path`. Whatever was there, a symlink included, is removed, not followed."""
    remove(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.fchmod(fd, mode)  # whatever the umask
        write_all(fd, data)
    finally:
        os.close(fd)


def write_over(path: str, data: bytes) -> None:
    """Create or overwrite `path` in place, because it may be a mount. Anything but a regular file is removed first."""
    fd = open_own(path, os.O_WRONLY | os.O_TRUNC, 0o644)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def write_synced(path: str, data: bytes) -> None:
    """Replace `path` atomically and durably: readers see the old file or the new one, never a part of it."""
    replace_own(path, f"{path}.partial", data, 0o644)


def read_file(path: str) -> bytes:
    """The contents of a regular file. OSError also for other kinds of files (pipes, say) and for more than 64 MiB."""
    return untrusted.read_path(path, _MAX_READ)


def remove(path: str) -> None:
    """Remove whatever `path` is, if it exists."""
    clear(path)


def link(target: str, path: str) -> None:
    """Make `path` a symlink to `target`, replacing whatever was there."""
    remove(path)
    os.symlink(target, path)


class Faults:
    """The first log or event file that could not be written. The writer notes it here and goes on without the file;
    the supervisor then stops the task."""

    def __init__(self) -> None:
        self.first: tuple[str, OSError] | None = None

    def note(self, path: str, error: OSError) -> None:
        if self.first is None:
            # The traceback would keep the caller's buffers exported, and they could not be resized.
            self.first = (path, error.with_traceback(None))
