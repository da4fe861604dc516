"""Finds parts of a stream without reading all of it: its last lines, and its lines between two times.

A part is a list of sections of its files, oldest first. A section is empty if it ends where it starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kedge.runs.log_times import TimesReader
from kedge.runs.logs import LONGEST_LINE, files, open_file, open_index

_BLOCK = 1 << 16


class LogSection(NamedTuple):
    """The bytes from `start` to `end` of the file of a stream with this inode."""

    inode: int
    start: int
    end: int


Part = list[LogSection]


def size(part: Part) -> int:
    """The bytes of a part."""
    return sum(section.end - section.start for section in part)


class LogPlaces:
    """Finds parts of one stream of a task attempt."""

    def __init__(self, folder: Path, stream: str) -> None:
        self._folder, self._stream = folder, stream

    def whole(self) -> Part:
        """Everything that the stream contains now; an empty list if there is no stream."""
        return [LogSection(file.inode, 0, file.size) for file in files(self._folder, self._stream)]

    def has_times(self, part: Part) -> bool:
        """Whether any file of the part has an index of times."""
        for section in part:
            if (fd := open_index(self._folder, self._stream, section.inode)) is not None:
                os.close(fd)
                return True
        return False

    def since(self, part: Part, time: int) -> Part:
        """The lines printed at `time` or later: an empty section at the end if there are none."""
        for number, section in enumerate(part):
            if (start := self._first_line(section, time)) is not None:
                return [section._replace(start=start), *part[number + 1 :]]
        return [section._replace(start=section.end) for section in part[-1:]]

    def until(self, part: Part, time: int) -> Part:
        """The lines printed before `time`."""
        for number, section in enumerate(part):
            if (end := self._first_line(section, time)) is not None:
                return [*part[:number], section._replace(end=end)]
        return part

    def last_lines(self, part: Part, count: int) -> tuple[Part, int]:
        """The last `count` lines, and how many there are. A last line counts even if it is unfinished. At most
        LONGEST_LINE bytes for each line are looked at: a log may hold endless zeros."""
        if count == 0 or not size(part):
            return [section._replace(start=section.end) for section in part[-1:]], 0
        seen, ended = 0, False  # newlines between two lines
        looked_at = 0  # bytes
        for number in reversed(range(len(part))):
            for start, data in self._backwards(part[number]):
                end = len(data) if ended else len(data) - data.endswith(b"\n")
                ended = True
                newlines = data.count(b"\n", 0, end)
                if seen + newlines >= count:
                    for _ in range(count - seen):
                        end = data.rfind(b"\n", 0, end)
                    return [part[number]._replace(start=start + end + 1), *part[number + 1 :]], count
                seen += newlines
                looked_at += len(data)
                if looked_at >= count * LONGEST_LINE:
                    return [part[number]._replace(start=start), *part[number + 1 :]], seen + 1
        return part, seen + 1

    def _first_line(self, section: LogSection, time: int) -> int | None:
        """Where the first line of a section begins that was printed at `time` or later."""
        fd = open_index(self._folder, self._stream, section.inode)
        if fd is None:
            return None
        reader = TimesReader(fd)
        try:
            offset = reader.since(time)
        finally:
            reader.close()
        if offset is None or offset >= section.end:
            return None
        return self._line_start(section, max(offset, section.start))

    def _line_start(self, section: LogSection, offset: int) -> int:
        before = section._replace(start=max(section.start, offset - LONGEST_LINE), end=offset)
        for start, data in self._backwards(before):
            if b"\n" in data:
                return start + data.rindex(b"\n") + 1
        return offset if before.start > section.start else section.start

    def _backwards(self, section: LogSection) -> Iterator[tuple[int, bytes]]:
        """The blocks of a section, the last first, each with its offset in the file."""
        fd = open_file(self._folder, self._stream, section.inode)
        if fd is None:  # rotation has deleted it
            return
        try:
            end = section.end
            while end > section.start:
                start = max(section.start, end - _BLOCK)
                yield start, os.pread(fd, end - start, start)
                end = start
        finally:
            os.close(fd)
