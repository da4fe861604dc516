"""Reads the logs of a task: a growing file, or the folder of a stream that is rotated while it is read.

A task's folder and the path below it are passed separately: below it the task may have put links, which are not
followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kedge.contract import CURRENT
from kedge.late_patterns import late_pattern
from kedge.untrusted import open_folder, open_regular

CHUNK = 1 << 18
LONGEST_LINE = 1 << 18  # bytes of an unfinished line that are held back until the line ends
_SPLIT = late_pattern(rb"(?:[\xc0-\xff][\x80-\xbf]{0,2}|\x1b\[?[0-9;:]{0,40})\Z")  # an incomplete character or escape


class StreamReader:
    """Reads one stream from its oldest byte, without gaps or repeats across rotation.

    In the task's `folder`, `stream` is a plain file (runtime.log) or a folder; neither needs to exist yet.
    Only what rotation deletes before it is read is lost.
    """

    def __init__(self, folder: Path, stream: str) -> None:
        self._folder, self._stream = folder, stream
        self._fd: int | None = None
        self._inode = 0

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def read(self) -> bytes:
        """The next new bytes, at most CHUNK; empty if there are none."""
        while self._fd is not None or self._open_next():
            assert self._fd is not None
            if data := os.read(self._fd, CHUNK):
                return data
            # The end of this file. Once it is no longer the current file, nothing is added to it: read once more for
            # what was added since, then open the next file.
            if not self._superseded():
                return b""
            if data := os.read(self._fd, CHUNK):
                return data
            if not self._open_next():
                return b""
        return b""

    def skip_except(self, lines: int) -> None:
        """Skip what there is now, except so many last lines, of which at most CHUNK bytes are looked at. Call it before
        the first `read`."""
        try:
            files = _files(self._folder, self._stream)
            fd = open_regular(self._folder, files[-1][0])
        except OSError:  # nothing to skip
            return
        start = max(0, os.fstat(fd).st_size - CHUNK)
        os.lseek(fd, start + _beginning(os.pread(fd, CHUNK, start), lines), os.SEEK_SET)
        self._fd, self._inode = fd, os.fstat(fd).st_ino

    def _superseded(self) -> bool:
        try:
            return os.lstat(self._folder / self._stream / CURRENT).st_ino != self._inode
        except OSError:
            return False

    def _open_next(self) -> bool:
        """Open the file that follows the last one read, or the oldest one."""
        try:
            files = _files(self._folder, self._stream)
            inodes = [inode for _, inode in files]
            index = inodes.index(self._inode) + 1 if self._inode in inodes else 0
            if index >= len(files):
                return False
            fd = open_regular(self._folder, files[index][0])
        except OSError:  # it does not exist yet, or is being rotated; the next call finds the new names
            return False
        self.close()
        self._fd, self._inode = fd, os.fstat(fd).st_ino
        return True


class LineCutter:
    """Cuts chunks into whole lines; an unfinished line is held back until it ends.

    A line longer than LONGEST_LINE is returned in several pieces; only the last ends with a newline. Progress bars are
    cut between two of their states, text between two characters.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, each with its newline, and the pieces of a long one."""
        head, newline, tail = data.rpartition(b"\n")
        lines = []
        if newline:
            # Not splitlines: a carriage return does not end a line.
            lines = [line + b"\n" for line in b"".join((*self._rest, head)).split(b"\n")]
            self._rest, self._size = [], 0
        if tail:
            self._rest.append(tail)
            self._size += len(tail)
        return [*lines, self._piece()] if self._size > LONGEST_LINE else lines

    def rest(self) -> bytes:
        """Return the unfinished line and forget it."""
        rest = b"".join(self._rest)
        self._rest, self._size = [], 0
        return rest

    def _piece(self) -> bytes:
        unfinished = self.rest()
        end = unfinished.rfind(b"\r", LONGEST_LINE // 2) + 1
        if not end:
            split = _SPLIT.search(unfinished, len(unfinished) - 64)
            end = split.start() if split else len(unfinished)
        if kept := unfinished[end:]:
            self._rest, self._size = [kept], len(kept)
        return unfinished[:end]


def tail(folder: Path, name: str, size: int) -> bytes:
    """The last `size` bytes of a task's file; empty if there is no readable regular file."""
    try:
        with open(open_regular(folder, name), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read(size)
    except OSError:
        return b""


def whole(folder: Path, stream: str) -> Iterator[bytes]:
    """Everything that a stream contains now, in chunks."""
    with StreamReader(folder, stream) as reader:
        while data := reader.read():
            yield data


def _beginning(data: bytes, lines: int) -> int:
    """Where the last lines begin; an unfinished one counts as a line."""
    at = len(data)
    for _ in range(lines):
        at = data.rfind(b"\n", 0, max(0, at - 1)) + 1
    return at


def _files(folder: Path, stream: str) -> list[tuple[str, int]]:
    """(name below `folder`, inode) of the files of a stream, oldest first; the current file is last. FileNotFoundError
    if there are none."""
    try:
        fd = open_folder(folder, stream)
    except OSError:  # no folder
        return [(stream, os.lstat(folder / stream).st_ino)]
    try:
        names = [name for name in os.listdir(fd) if name[0] == "@" or name == CURRENT]
        names.sort(key=lambda name: (name == CURRENT, name))
        return [(f"{stream}/{name}", os.lstat(name, dir_fd=fd).st_ino) for name in names]
    finally:
        os.close(fd)
