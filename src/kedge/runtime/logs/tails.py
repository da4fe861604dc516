"""The last bytes of a log across rotated files, and the file and line number of each of their lines."""

from __future__ import annotations

import io
import os
import stat

from kedge import contract
from kedge.diagnose.model import LOG_TAIL
from kedge.light.types import Any, Iterator, NamedTuple, Sequence
from kedge.runtime.logs.rotate import label

_PIECE = 1 << 20


class FileTail(NamedTuple):
    """The end of one file: its path relative to the task's folder, and how many bytes precede `data`."""

    path: str
    skipped: int
    data: bytes


class LogTail(NamedTuple):
    """The end of a log, oldest file first."""

    folder: str
    name: str
    pieces: tuple[FileTail, ...]

    @property
    def content(self) -> bytes:
        """The contents of all pieces."""
        return b"".join(piece.data for piece in self.pieces)

    def place(self, line: int) -> dict[str, Any]:
        """The `file`, and the `line` in it, of a line of `content`. Lines are counted from 1."""
        for piece in self.pieces:
            lines = piece.data.count(b"\n")
            if line <= lines or piece is self.pieces[-1]:
                before = _newlines(os.path.join(self.folder, piece.path), piece.skipped)
                return {"file": piece.path, "line": line + before}
            line -= lines
        return {"file": self.name, "line": line}


def of_stream(folder: str, name: str, started: int) -> LogTail:
    """The tail of a user stream, for the attempt that began at `started` (nanoseconds since 1970)."""
    return _tail(folder, name, files_of_stream(folder, name, started))


def of_file(folder: str, name: str) -> LogTail:
    """The tail of a plain file."""
    return _tail(folder, name, [name])


def files_of_stream(folder: str, name: str, started: int) -> list[str]:
    """The files of a user stream, oldest first, relative to the task's folder."""
    first = label(started)
    try:
        found = os.listdir(os.path.join(folder, name))
    except OSError:
        return []
    rotated = sorted(file for file in found if file.endswith(".s") and file >= first)
    return [os.path.join(name, file) for file in (*rotated, contract.CURRENT)]


def _tail(folder: str, name: str, paths: Sequence[str]) -> LogTail:
    return LogTail(folder, name, tuple(reversed(list(_newest_first(folder, paths)))))


def _newest_first(folder: str, paths: Sequence[str]) -> Iterator[FileTail]:
    left = LOG_TAIL
    for path in reversed(paths):
        try:
            with open_regular(os.path.join(folder, path)) as file:
                skipped = max(0, os.fstat(file.fileno()).st_size - left)
                file.seek(skipped)
                data = file.read(left) or b""
        except OSError:
            continue
        left -= len(data)
        yield FileTail(path, skipped, data)
        if left <= 0:
            return


def open_regular(path: str) -> io.FileIO:
    """Open a regular file for reading, without following a link or waiting for a pipe's writer. OSError if it is not
    regular."""
    file = io.FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a regular file")
    return file


def _newlines(path: str, end: int) -> int:
    """The number of lines that end before the byte `end` of a file."""
    count = 0
    try:
        with open_regular(path) as file:
            while end > 0 and (data := file.read(min(end, _PIECE))):
                count += data.count(b"\n")
                end -= len(data)
    except OSError:
        return count
    return count
