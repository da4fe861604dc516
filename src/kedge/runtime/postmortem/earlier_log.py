"""The part of a log before its last 10 MiB: one cheap pass over it finds the few places where something failed."""

from __future__ import annotations

import os
import time

from kedge.diagnose import regex
from kedge.diagnose.log.anchors import AFTER, ANCHORS, BEFORE, FirstAndLast
from kedge.light.types import Iterator, NamedTuple, Sequence
from kedge.runtime.logs.tails import FileTail, LogTail, files_of_stream, open_regular

LIMIT_SEC = 4.0
_BLOCK = 256 << 10
_OVERLAP = max(map(len, ANCHORS)) - 1


class Earlier(NamedTuple):
    """The pieces of a log around the places that were found, and how many of its bytes were not searched."""

    tail: LogTail
    unread: int


_Places = FirstAndLast[tuple[str, int]]  # of one anchor in all files: path and offset


def search(seen: LogTail, started: int) -> Earlier:
    """Search the part of the user's stream before its tail `seen`, from `started` (nanoseconds since 1970) on."""
    deadline = time.monotonic() + LIMIT_SEC
    found, unread = {anchor: _Places() for anchor in ANCHORS}, 0
    parts = list(_unseen(seen, files_of_stream(seen.folder, seen.name, started)))
    for path, end in parts:
        unread += _search(os.path.join(seen.folder, path), path, end, found, deadline)
    ends = dict(parts)
    places = sorted({place for kept in found.values() for place in kept}, key=lambda p: (list(ends).index(p[0]), p[1]))
    return Earlier(LogTail(seen.folder, seen.name, tuple(_windows(seen.folder, places, ends))), unread)


def _unseen(seen: LogTail, paths: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The files, oldest first, and how many bytes of each are not in `seen`."""
    skipped = {piece.path: piece.skipped for piece in seen.pieces}
    for path in paths:
        try:
            size = os.lstat(os.path.join(seen.folder, path)).st_size
        except OSError:
            continue
        if end := skipped.get(path, size):
            yield path, end


def _search(path: str, name: str, end: int, found: dict[bytes, _Places], deadline: float) -> int:
    """Add the places in the first `end` bytes of a file. Return how many of these bytes could not be read in time."""
    buffer = bytearray(_OVERLAP + _BLOCK)
    view, done, kept = memoryview(buffer), 0, 0
    try:
        with open_regular(path) as file:
            while done < end and time.monotonic() < deadline:
                size = file.readinto(view[kept : kept + min(_BLOCK, end - done)])
                if not size:
                    break
                for anchor, places in found.items():
                    for at in _ends(buffer, anchor, kept + size):
                        places.add((name, done - kept + at))
                done += size
                rest = min(_OVERLAP, kept + size)
                view[:rest] = bytes(view[kept + size - rest : kept + size])
                kept = rest
    except OSError:
        return end - done
    return end - done


def _ends(buffer: bytearray, anchor: bytes, size: int) -> Iterator[int]:
    """The positions of the first and the last occurrence of the anchor in a block."""
    first = regex.find(anchor, buffer, 0, size)
    if first >= 0:
        yield first
        last = buffer.rfind(anchor, first + 1, size)
        if last >= 0:
            yield last


def _windows(folder: str, places: Sequence[tuple[str, int]], ends: dict[str, int]) -> Iterator[FileTail]:
    """The whole lines around the places, without repetitions."""
    path, until = "", 0
    for name, at in places:
        start = max(at - BEFORE, until if name == path else 0, 0)
        path, end = name, min(at + AFTER, ends[name])
        if start < end and (piece := _whole_lines(folder, name, start, end)):
            yield piece
            until = piece.skipped + len(piece.data)


def _whole_lines(folder: str, path: str, start: int, end: int) -> FileTail | None:
    try:
        with open_regular(os.path.join(folder, path)) as file:
            file.seek(max(0, start - 1))
            data = file.read(end - max(0, start - 1)) or b""
    except OSError:
        return None
    first = data.find(b"\n") + 1 if start else 0
    last = data.rfind(b"\n") + 1
    return FileTail(path, max(0, start - 1) + first, data[first:last]) if first < last else None
