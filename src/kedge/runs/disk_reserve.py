"""Reserves disk space at the start of a job, so that its end can be recorded even when the disk is full."""

from __future__ import annotations

import os
from pathlib import Path

from kedge.own_files import clear, open_own, write_all
from kedge.runs.atomic_files import disk_errors

SIZE = 1 << 20  # bytes; enough for the last events of about a thousand tasks
_FILE = ".reserve"


def make(folder: Path) -> None:
    """Reserve SIZE bytes in a run folder. DiskFull if there is less space than that."""
    path = folder / _FILE
    with disk_errors(path):
        fd = open_own(path, os.O_WRONLY | os.O_TRUNC)
        try:
            _allocate(fd)
        except BaseException:
            path.unlink()
            raise
        finally:
            os.close(fd)


def free(folder: Path) -> bool:
    """Release the reserved space. False if it was released before."""
    if not os.path.lexists(folder / _FILE):
        return False
    clear(folder / _FILE)
    return True


def _allocate(fd: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, SIZE)
    else:  # macOS; random bytes, because zeros may take no space
        write_all(fd, os.urandom(SIZE))
