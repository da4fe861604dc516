"""Event logs: append-only files of one JSON object per line, with one writer per file.

Every event has a `time` and an `event`, its name; the other keys are facts. Readers skip a line torn by a crash and
lines that are not events: tasks can write to the logs of their supervisors, and without a container to any log.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from kedge.contract import timestamp
from kedge.late_patterns import late_pattern
from kedge.own_files import open_own, write_all
from kedge.runs.atomic_files import disk_errors
from kedge.runs.file_locks import FileIsLocked, flock
from kedge.untrusted import open_regular, parse
from kedge.untrusted_values import fits

PATIENCE_SEC = 60.0  # for the writer before, such as a controller whose machine is about to be given up
_BLOCK = 1 << 16
LONGEST_LINE = 1 << 20  # bytes; longer lines are ignored
LARGEST_LOG = 64 << 20  # bytes; the rest of a longer log is ignored

Event = dict[str, Any]

# The types of the facts that readers use. Other facts may have any type.
_KINDS: Mapping[str, Any] = {
    "event": str, "time": str, "role": str, "index": int, "task_attempt": int, "attempt": int, "roles": dict[str, int],
    "succeeded": bool, "code": int | None, "user_exit_code": int | None, "reason": str | None, "message": str | None,
    "text": str | None, "state": str, "verdict": str, "root": dict[str, str | None] | None, "why": str, "by": str,
    "kill": bool, "step": str, "next_try": int, "tries": int, "delay_sec": float, "pid": int, "start_time": int | None,
    "exit_code": int | None, "name": str, "address": str | None, "task_over": bool, "until": str, "run": str,
    "node": str,
}  # fmt: skip
_COUNTS = ("index", "task_attempt", "attempt")
_ROLE = late_pattern(r"\w*", re.ASCII)  # it becomes part of a folder's name
_MOST_TASKS = 1 << 20


class EventLog:
    """The only writer of an event log. Continues an existing log after removing a torn last line.

    Waits until any other writer has closed the log: FileIsLocked, which is a TimeoutError, if that takes longer than
    `patience_sec`; FileNotFoundError if the log was removed in the meantime; CannotRun without locks on that file
    system. With `locked` false, something else keeps others from writing.
    """

    def __init__(self, path: Path, patience_sec: float = PATIENCE_SEC, *, locked: bool = True) -> None:
        self._path = path
        with disk_errors(path):
            self._fd = open_own(path, os.O_RDWR | os.O_APPEND, 0o644)
        try:
            if locked:
                _lock(self._fd, path, patience_sec)
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
        """Append one event with the current time. With `sync`, required for final states, it is on the disk on return.

        DiskFull if there is no space; the log is then unchanged.
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


def _lock(fd: int, path: Path, patience_sec: float) -> None:
    end = time.monotonic() + patience_sec
    while True:
        try:
            flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, path)
        except BlockingIOError:
            if time.monotonic() > end:
                raise FileIsLocked(
                    f"{path} is locked by another process, perhaps one on a machine that is gone: end that process"
                ) from None
            time.sleep(0.01)
        else:
            return


def is_written(path: Path) -> bool:
    """Whether any process has this log open as an EventLog now."""
    try:
        fd = open_regular(path.parent, path.name)
    except FileNotFoundError:
        return False
    try:
        flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, path)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read(path: Path) -> Iterator[Event]:
    """All events of a log; none if it does not exist. Skips a torn last line and damaged lines."""
    return EventReader(path).events()


class EventReader:
    """Reads a growing log. Keeps no file open between calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._in_long_line = False

    def events(self) -> Iterator[Event]:
        """The events since the last call, parsed one by one."""
        for line in self._new_lines():
            if (event := _parse(line)) is not None:
                yield event

    def _new_lines(self) -> Iterator[bytes]:
        """The new complete lines. Lines longer than LONGEST_LINE are skipped without being kept in memory."""
        try:
            file = open(open_regular(self._path.parent, self._path.name), "rb", buffering=0)  # noqa: SIM115
        except OSError:
            return
        with file:
            file.seek(self._offset)
            rest = b""
            while self._offset < LARGEST_LOG and (data := file.read(_BLOCK)):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._offset += len(line) + 1
                    if not self._in_long_line:
                        yield line
                    self._in_long_line = False
                if self._in_long_line or len(rest) > LONGEST_LINE:
                    self._offset += len(rest)
                    self._in_long_line, rest = True, b""


def _parse(line: bytes) -> Event | None:
    try:
        event = parse(line)
    except ValueError:
        return None
    return event if is_event(event) else None


def is_event(value: Any) -> bool:
    """Whether this is an event whose known facts have the right types."""
    return (
        isinstance(value, dict)
        and "event" in value
        and all(fits(fact, _KINDS[name]) for name, fact in value.items() if name in _KINDS)
        and ("time" not in value or is_time(value["time"]))
        and all(value.get(name, 0) >= 0 for name in _COUNTS)
        and _ROLE.fullmatch(value.get("role", "")) is not None
        and _are_roles(value.get("roles", {}))
    )


def _are_roles(roles: Mapping[str, int]) -> bool:
    return (
        all(map(_ROLE.fullmatch, roles)) and min(roles.values(), default=0) >= 0 and sum(roles.values()) < _MOST_TASKS
    )


def is_time(text: str) -> bool:
    """Whether this is a time in the format of events: with a zone, and in a year that arithmetic can handle."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None and not text.startswith(("0000", "0001", "9999"))
    except ValueError:
        return False


def _end_of_lines(fd: int) -> int:
    """The offset after the last newline within the first LARGEST_LOG bytes of a file."""
    end = min(os.fstat(fd).st_size, LARGEST_LOG)
    while end > 0:
        start = max(0, end - _BLOCK)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
