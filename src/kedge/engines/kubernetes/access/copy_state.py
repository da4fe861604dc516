"""Who copies a run now, and how new its copy is.

RUN/cluster/copying.lock          held by the process that copies records and logs; its time is when something came last
RUN/cluster/copying-outputs.lock  the same for the outputs
RUN/cluster/copied.json           what the copy has
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kedge.own_files import open_own
from kedge.runs.atomic_files import write_json
from kedge.runs.cluster_files import ClusterFiles
from kedge.runs.file_locks import flock
from kedge.untrusted_values import fits, named

_FILE = "copied.json"
_LOOK_SEC = 0.05


class CopyState(NamedTuple):
    """What a copy has. `when`: as its original was at this time (seconds since 1970; 0: never). `ended`: all records of
    a job that has ended; `logs` and `outputs`: these as well, all of them. `let_go`: its original may go."""

    when: float = 0.0
    ended: bool = False
    logs: bool = False
    outputs: bool = False
    let_go: bool = False

    @property
    def is_complete(self) -> bool:
        return self.ended and self.logs and self.outputs


def read(files: ClusterFiles) -> CopyState:
    """What the copy of a run has."""
    try:
        found = named(CopyState, files.object(files.folder / _FILE))
    except ValueError:
        return CopyState()
    return found if fits(found, CopyState) else CopyState()


def write(files: ClusterFiles, state: CopyState) -> None:
    """Keep what the copy has, for other commands."""
    with suppress(OSError):
        write_json(files.folder / _FILE, state._asdict(), synced=False)


class CopyLock:
    """Held by the process that copies a part of a run (`local_copy.RECORDS` or OUTPUTS)."""

    def __init__(self, files: ClusterFiles, part: str) -> None:
        files.make()
        self._path = files.folder / f"{part.replace('copied', 'copying')}.lock"
        self._fd = open_own(self._path, os.O_RDWR)

    def take(self) -> bool:
        """Take it; False: another process has it."""
        try:
            flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, self._path)
        except BlockingIOError:
            return False
        return True

    def news(self) -> None:
        """Its holder has got all news."""
        os.utime(self._fd)

    def has_news_since(self, when: float) -> bool:
        """Whether its holder, whoever that is, has got all news since a time (seconds since 1970)."""
        return os.fstat(self._fd).st_mtime > when

    def close(self) -> None:
        """Release it, if it is held."""
        os.close(self._fd)


@contextmanager
def taken(files: ClusterFiles, part: str, patience_sec: float) -> Iterator[CopyLock | None]:
    """A context with the lock; None if another process has it and has got all news since this was called, or keeps it
    for longer than this."""
    began, end = time.time(), time.monotonic() + patience_sec
    lock = CopyLock(files, part)
    try:
        while not lock.take():
            if lock.has_news_since(began) or time.monotonic() > end:
                yield None
                return
            time.sleep(_LOOK_SEC)
        yield lock
    finally:
        lock.close()
