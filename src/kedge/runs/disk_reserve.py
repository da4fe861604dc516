"""Space set aside at the start of a job, so that its end can be written down on a disk that has become full."""

from __future__ import annotations

import os
from pathlib import Path

from kedge.own_files import clear, open_own
from kedge.runs.atomic_files import disk_errors, write_all

SIZE = 1 << 20  # bytes; the last events of some thousand tasks
_FILE = ".reserve"


def make(folder: Path) -> None:
    """Set SIZE bytes aside in a run folder. DiskFull if there is not even that much."""
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
    """Give the space back, to be used at once. False when that was done before."""
    if not os.path.lexists(folder / _FILE):
        return False
    clear(folder / _FILE)
    return True


def _allocate(fd: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, SIZE)
    else:  # macOS; random, because zeros may be stored as nothing
        write_all(fd, os.urandom(SIZE))
