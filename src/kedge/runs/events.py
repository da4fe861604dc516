"""Event logs: append-only files of one JSON object a line, one writer a file.

Every event has a `time` and an `event`, its name; the rest are facts. A line that a crash has torn is not there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kedge.contract import timestamp
from kedge.runs.files import disk_errors, open_regular, write_all

_BLOCK = 1 << 16

Event = dict[str, Any]


class EventLog:
    """The one writer of an event log. Continues an existing log, after removing a torn last line.

    There is one at a time: another one is waited for. FileNotFoundError when the log was removed meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with disk_errors(path):
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if not os.path.samestat(os.stat(path), os.fstat(self._fd)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._end = _end_of_lines(self._fd)
            os.ftruncate(self._fd, self._end)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def append(self, event: str, *, sync: bool = False, **facts: Any) -> Event:
        """Add one event, now. With `sync` it is on the disk when this returns, as final states must be.

        DiskFull if there is no space; the log then ends as before the call.
        """
        entry = {"time": timestamp(time.time_ns()), "event": event, **facts}
        line = (json.dumps(entry) + "\n").encode()
        with disk_errors(self._path):
            try:
                write_all(self._fd, line)
                if sync:
                    os.fsync(self._fd)
            except BaseException:
                os.ftruncate(self._fd, self._end)
                raise
        self._end += len(line)
        return entry


def is_written(path: Path) -> bool:
    """Whether an EventLog of this log is open now, in whatever process."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read(path: Path) -> Iterator[Event]:
    """All events of a log, none if it does not exist. Skips a torn last line and what a crashed disk left damaged."""
    return Tail(path).events()


class Tail:
    """Reads a log that grows. Holds no file open in between."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read_new(self) -> list[Event]:
        """The events since the last call."""
        return list(self.events())

    def events(self) -> Iterator[Event]:
        """The same, parsed one by one."""
        for line in self._new_lines():
            if (event := _parse(line)) is not None:
                yield event

    def _new_lines(self) -> list[bytes]:
        try:
            with open(open_regular(self._path.parent, self._path.name), "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()


def _parse(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # or a task has written it
        return None
    return event if isinstance(event, dict) else None


def _end_of_lines(fd: int) -> int:
    """The offset after the last newline of a file."""
    end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
