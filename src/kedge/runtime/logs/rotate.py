"""One stream's folder: a file `current` that is rotated near a size limit, as multilog does it.

`current` has mode 0644. When it is full, it gets mode 0744 and the name `@<TAI64N label>.s`. It is cut after the last
newline within the last 2000 bytes before the limit, else exactly at the limit. A `current` left by an earlier run is
renamed to `@<label>.u`.
"""

from __future__ import annotations

import os
import time

from kedge import contract
from kedge.light import contextlib
from kedge.light.types import Callable, Sequence
from kedge.own_files import Buffer, clear, open_own
from kedge.runtime.files import Faults
from kedge.runtime.logs.times import TimeIndex
from kedge.runtime.process import threads

MARGIN = 2000
SMALLEST = 4096  # bytes; multilog has the same minimum
_LARGE = 1 << 24  # bytes of a file that take long to free
_ROOM = 1 << 30  # bytes: more than a task prints meanwhile
_TAI_OFFSET = (1 << 62) + 10


class RotatingFile:
    """Appends bytes to a stream's folder. A failed write is noted in `faults`, and all later data is dropped.

    `written` counts the bytes written, `removed_bytes` those that rotation has deleted; `on_removed(path, bytes)` is
    called for each deleted file. `clock` returns nanoseconds since 1970.
    """

    def __init__(
        self,
        folder: str,
        policy: contract.LogPolicy,
        faults: Faults,
        on_removed: Callable[[str, int], None],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = folder
        self.written = 0
        self.removed_bytes = 0
        self._path = f"{folder}/{contract.CURRENT}"
        self._limit = max(SMALLEST, policy.file_bytes)
        self._kept_files = policy.kept_files
        self._faults = faults
        self._on_removed = on_removed
        self._times = TimeIndex(os.path.dirname(folder), f"{os.path.basename(folder)}/{contract.CURRENT}", clock)
        self._size = 0
        self._fd: int | None = None
        self._guard(self._start)

    def write(self, parts: Sequence[Buffer]) -> None:
        """Append the parts in order. Far from the limit, this is one system call without a copy."""
        self._guard(self._append, parts)

    def close(self) -> None:
        """Close the file and drop later data."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._times.close()

    def _guard(self, action: Callable[..., None], *arguments: object) -> None:
        try:
            action(*arguments)
        except OSError as error:
            self._faults.note(self._path, error)
            self.close()

    def _start(self) -> None:
        os.makedirs(self.folder, 0o755, exist_ok=True)
        self._open()
        if self._fd is not None and os.fstat(self._fd).st_size:
            self._rename(f"{label(time.time_ns())}.u")
            self.close()
            self._open()

    def _open(self) -> None:
        self._fd = open_own(self._path, os.O_WRONLY | os.O_APPEND, 0o644)
        os.fchmod(self._fd, 0o644)
        self._size = 0

    def _append(self, parts: Sequence[Buffer]) -> None:
        if self._fd is None:
            return
        total = sum(map(len, parts))
        if self._size + total >= self._limit - MARGIN:
            for part in parts:
                self._append_near_limit(memoryview(part))
            return
        if total:
            self._times.mark(self._size)
        written = os.writev(self._fd, parts)
        self._size += written
        self.written += written
        if written < total:  # the disk is nearly full, and the next write fails
            self._append([b"".join(parts)[written:]])

    def _append_near_limit(self, rest: memoryview) -> None:
        while rest:
            assert self._fd is not None
            piece = rest[: self._cut(rest)]
            self._times.mark(self._size)
            written = os.write(self._fd, piece)
            self._size += written
            self.written += written
            ends_line = piece[written - 1] == ord("\n")
            rest = rest[written:]
            if self._size >= self._limit or (ends_line and self._size >= self._limit - MARGIN):
                self._rotate()

    def _cut(self, rest: memoryview) -> int:
        """How many bytes of `rest` belong into the current file."""
        room = min(len(rest), self._limit - self._size)
        margin = max(0, self._limit - MARGIN - self._size - 1)
        newline = bytes(rest[margin:room]).rfind(b"\n")
        return room if newline < 0 else margin + newline + 1

    def _rotate(self) -> None:
        assert self._fd is not None
        os.fchmod(self._fd, 0o744)
        with contextlib.suppress(FileNotFoundError):  # the task has deleted it
            self._rename(f"{label(time.time_ns())}.s")
        self.close()
        os.makedirs(self.folder, 0o755, exist_ok=True)
        self._remove_oldest()
        self._open()

    def _rename(self, name: str) -> None:
        self._times.rename(name)
        os.rename(self._path, f"{self.folder}/{name}")

    def _remove_oldest(self) -> None:
        finished = sorted(name for name in os.listdir(self.folder) if name.startswith("@"))
        for name in finished[: max(0, len(finished) - self._kept_files)]:
            path, size = f"{self.folder}/{name}", 0
            with contextlib.suppress(FileNotFoundError):
                size = os.lstat(path).st_size
            self._times.remove(name)
            _delete(path, size)
            self.removed_bytes += size
            self._on_removed(path, size)


def _delete(path: str, size: int) -> None:
    """Delete a file of `size` bytes. The file system takes 15 ms and more to free 256 MiB. If the disk has room for the
    output of that time, a thread waits for it: it closes the last descriptor of the deleted file."""
    held = _hold(path) if size >= _LARGE else None
    try:
        clear(path)
    finally:
        if held is not None:
            _close_apart(held)


def _close_apart(fd: int) -> None:
    try:
        threads.start(os.close, fd)
    except RuntimeError:  # no thread can be started
        os.close(fd)


def _hold(path: str) -> int | None:
    """A descriptor that keeps the file's data. None if the disk is nearly full."""
    try:
        disk = os.statvfs(path)
        has_room = disk.f_bavail * disk.f_frsize >= _ROOM
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) if has_room else None
    except OSError:
        return None


def label(ns: int) -> str:
    """The TAI64N label of a time in nanoseconds since 1970: `@`, 16 hex digits of seconds, 8 of nanoseconds.

    As in multilog, TAI is taken to be 10 seconds ahead of UTC."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"@{_TAI_OFFSET + seconds:016x}{rest:08x}"
