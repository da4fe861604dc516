"""Space set aside at the start of a job, so that its end can be written down on a disk that has become full."""

from __future__ import annotations

import os
from pathlib import Path

from kedge.runs.files import disk_errors, write_all

SIZE = 1 << 20  # bytes; the last events of some thousand tasks
_FILE = ".reserve"


def make(folder: Path) -> None:
    """Set SIZE bytes aside in a run folder. DiskFull if there is not even that much."""
    path = folder / _FILE
    with disk_errors(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _allocate(fd)
        except BaseException:
            path.unlink()
            raise
        finally:
            os.close(fd)


def free(folder: Path) -> bool:
    """Give the space back, to be used at once. False when that was done before."""
    try:
        (folder / _FILE).unlink()
    except FileNotFoundError:
        return False
    return True


def _allocate(fd: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, SIZE)
    else:  # macOS; random, because zeros may be stored as nothing
        write_all(fd, os.urandom(SIZE))
