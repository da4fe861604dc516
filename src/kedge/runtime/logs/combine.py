"""user-all: whole lines of both streams, in the order in which they were completed.

The unfinished line of each stream waits in an Unfinished: up to 1 MiB in memory and longer ones in an unlinked file, so
that a line of any length needs little memory.
"""

from __future__ import annotations

import os

from kedge.own_files import Buffer, write_all
from kedge.runtime.files import Faults
from kedge.runtime.logs.rotate import RotatingFile

IN_MEMORY = 1 << 20  # bytes of an unfinished line
_PIECE = 1 << 18


class Unfinished:
    """The beginning of a line. Its spill file is an unnamed file in `folder`."""

    def __init__(self, folder: str, faults: Faults) -> None:
        self._folder = folder
        self._faults = faults
        self._held = bytearray()
        self._spill: int | None = None

    def __bool__(self) -> bool:
        return bool(self._held) or self._spill is not None

    def add(self, data: Buffer) -> None:
        """Append to the line."""
        self._held += data
        if len(self._held) > IN_MEMORY:
            try:
                self._spill_held()
            except OSError as error:
                self._faults.note(f"{self._folder} (a line of output longer than {IN_MEMORY} bytes)", error)
            self._held.clear()

    def move_to(self, target: RotatingFile, ending: Buffer) -> None:
        """Write the line and `ending` to `target`, and start an empty line."""
        if self._spill is not None:
            self._copy_spill(self._spill, target)
            os.close(self._spill)
            self._spill = None
        target.write([self._held, ending] if self._held else [ending])
        self._held.clear()

    def _spill_held(self) -> None:
        if self._spill is None:
            self._spill = _unnamed_file(self._folder)
        write_all(self._spill, self._held)

    def _copy_spill(self, spill: int, target: RotatingFile) -> None:
        os.lseek(spill, 0, os.SEEK_SET)
        while piece := os.read(spill, _PIECE):
            target.write([piece])


class Combined:
    """Feeds user-all from one stream. Each stream has one of its own; all share `target`."""

    def __init__(self, target: RotatingFile, folder: str, faults: Faults) -> None:
        self._target = target
        self._unfinished = Unfinished(folder, faults)

    def feed(self, data: bytes | bytearray, length: int) -> None:
        """Take the first `length` bytes of `data`."""
        view = memoryview(data)[:length]
        end = data.rfind(b"\n", 0, length) + 1
        if end and not self._unfinished:
            self._target.write([view[:end]])
        elif end:
            self._unfinished.move_to(self._target, view[:end])
        if end < length:
            self._unfinished.add(view[end:])

    def finish(self) -> None:
        """End of the stream: a last line without a newline gets one."""
        if self._unfinished:
            self._unfinished.move_to(self._target, b"\n")


def _unnamed_file(folder: str) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # not every file system supports O_TMPFILE (overlay and NFS may not)
        path = f"{folder}/.unfinished-{os.getpid()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        return fd
