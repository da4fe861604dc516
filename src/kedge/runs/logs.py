"""Reads the bytes of a task's log: a growing file, or the folder of a stream that is rotated while it is read.

A task's folder and the path below it are passed separately: below it the task may have put links, which are not
followed.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import NamedTuple

from kedge.contract import CURRENT, LOG_TIMES
from kedge.late_patterns import late_pattern
from kedge.untrusted import open_folder, open_regular

CHUNK = 1 << 18
LONGEST_LINE = 1 << 18  # bytes of an unfinished line that are held back until the line ends
_TRIES = 5
_RENAME_SEC = 0.001  # between two looks at a file that is being renamed
_LONGEST_RENAME_SEC = 0.25  # the task's supervisor may wait for a core between two renames
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_SPLIT = late_pattern(rb"(?:[\xc0-\xff][\x80-\xbf]{0,2}|\x1b\[?[0-9;:]{0,40})\Z")  # an incomplete character or escape


class LogFile(NamedTuple):
    """One file of a stream: its path below the task's folder, which changes with rotation, and its inode, which does
    not."""

    name: str
    inode: int
    size: int


class StreamReader:
    """Reads one stream from its oldest byte, without gaps or repeats across rotation.

    In the task's `folder`, `stream` is a plain file (runtime.log) or a folder; neither needs to exist yet.
    Only what rotation deletes before it is read is lost. `inode` and `offset` are the place of the bytes that were read
    last. OSError if there are too few descriptors.
    """

    def __init__(self, folder: Path, stream: str) -> None:
        self._folder, self._stream = folder, stream
        self._fd: int | None = None
        self._next = 0
        self.inode = 0
        self.offset = 0

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def seek(self, inode: int, offset: int) -> None:
        """Continue with this byte of this file. Does nothing if rotation has deleted the file."""
        if self._open(inode):
            assert self._fd is not None
            self._next = os.lseek(self._fd, offset, os.SEEK_SET)

    def read(self, most: int = CHUNK) -> bytes:
        """The next new bytes, at most `most`; empty if there are none."""
        while self._fd is not None or self._open_next():
            if data := self._take(most):
                return data
            # The end of this file. Once it is no longer the current file, nothing is added to it: read once more for
            # what was added since, then open the next file.
            if not self._superseded():
                return b""
            if data := self._take(most):
                return data
            if not self._open_next():
                return b""
        return b""

    def _take(self, most: int) -> bytes:
        assert self._fd is not None
        data = os.read(self._fd, most)
        self.offset, self._next = self._next, self._next + len(data)
        return data

    def _superseded(self) -> bool:
        try:
            return os.lstat(self._folder / self._stream / CURRENT).st_ino != self.inode
        except OSError:
            return False

    def _open_next(self) -> bool:
        """Open the file that follows the last one read, or the oldest one."""
        inodes = [file.inode for file in files(self._folder, self._stream)]
        index = inodes.index(self.inode) + 1 if self.inode in inodes else 0
        return index < len(inodes) and self._open(inodes[index])

    def _open(self, inode: int) -> bool:
        fd = open_file(self._folder, self._stream, inode)
        if fd is None:
            return False
        self.close()
        self._fd, self.inode, self._next = fd, inode, 0
        return True


class LineCutter:
    """Cuts chunks after the last whole line; an unfinished line is held back until it ends.

    A line longer than LONGEST_LINE is returned in several pieces; only the last ends with a newline. Progress bars are
    cut between two of their states, text between two characters.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, in one piece that ends with a newline, and then a piece of a long one."""
        end = data.rfind(b"\n") + 1  # a carriage return does not end a line
        if end == len(data) and not self._rest:  # most often
            return [data] if data else []
        lines = []
        if end:
            lines = [b"".join((*self._rest, data[:end]))]
            self._rest, self._size = [], 0
        if end < len(data):
            self._rest.append(data[end:])
            self._size += len(data) - end
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


def files(folder: Path, stream: str) -> list[LogFile]:
    """The files of a stream, oldest first; the current file is last."""
    try:
        fd = open_folder(folder, stream)
    except OSError:  # no folder
        return _file(folder, stream)
    try:
        for _ in range(_TRIES):
            names = sorted(os.listdir(fd), key=lambda name: (name == CURRENT, name))
            found = [(name, os.lstat(name, dir_fd=fd)) for name in names if name[0] == "@" or name == CURRENT]
            if set(os.listdir(fd)) == set(names):  # else `current` may be a later file than when its name was seen
                return [LogFile(f"{stream}/{name}", stat.st_ino, stat.st_size) for name, stat in found]
    except OSError:  # it is being rotated
        pass
    finally:
        os.close(fd)
    return []  # the next call finds the new names


def _file(folder: Path, name: str) -> list[LogFile]:
    try:
        stat = os.lstat(folder / name)
    except OSError:
        return []
    return [LogFile(name, stat.st_ino, stat.st_size)]


def open_file(folder: Path, stream: str, inode: int, below: str = "") -> int | None:
    """A descriptor of the file of a stream with this inode, or of its index in the folder `below`. None if there is
    none, or it is not a regular file.

    The index is renamed before its file: an index that was found under the name of a file, while the file had that
    name, belongs to it."""
    for _ in range(_TRIES):
        names = [file.name for file in files(folder, stream) if file.inode == inode]
        if not names:  # it was deleted, or got its name after the folder was listed
            continue
        fd = _opened(folder, below + names[0])
        if [file.inode for file in _file(folder, names[0])] == [inode]:
            return fd
        if fd is not None:
            os.close(fd)
    return None


def open_index(folder: Path, stream: str, inode: int) -> int | None:
    """A descriptor of the index of times of the file of a stream with this inode. None if there is none.

    The index may have been renamed, and its file not yet: then this waits a moment."""
    end, renaming = time.monotonic() + _LONGEST_RENAME_SEC, True
    while True:
        fd = open_file(folder, stream, inode, f"{LOG_TIMES}/")
        if fd is not None or not renaming or time.monotonic() > end:
            return fd
        # If no index is without its file any more, the file may just have got its name: then there is one more try.
        if renaming := bool(_names(folder, f"{LOG_TIMES}/{stream}") - _names(folder, stream) - {CURRENT}):
            time.sleep(_RENAME_SEC)


def _names(folder: Path, stream: str) -> set[str]:
    try:
        fd = open_folder(folder, stream)
    except OSError:
        return set()
    try:
        return set(os.listdir(fd))
    finally:
        os.close(fd)


def _opened(folder: Path, name: str) -> int | None:
    try:
        return open_regular(folder, name)
    except OSError as error:
        if error.errno in _NO_DESCRIPTORS:
            raise
        return None
