"""Logs that a person has at hand: plain or compressed, in files or on stdin. Only their end is kept."""

from __future__ import annotations

import gzip
import io
import sys
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import zstandard

from kedge.errors import InputError

KEPT = 10 << 20  # bytes; as much as a diagnosis looks at
_CHUNK = 1 << 18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Tail(NamedTuple):
    """The end of a log, and how many lines end before it."""

    content: bytes
    lines_before: int


def read_tail(path: str) -> Tail:
    """The last KEPT bytes of a log; `-` is stdin. gzip and zstd are known by their content, not by their name.

    InputError when it cannot be read, or when what is compressed is damaged.
    """
    try:
        with open(sys.stdin.fileno() if path == "-" else path, "rb", closefd=path != "-") as file:
            return _tail(_chunks(file))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (EOFError, zstandard.ZstdError) as error:
        raise InputError(f"{path}: what is compressed in it is damaged: {error}") from error


def _chunks(file: io.BufferedReader) -> Iterator[bytes]:
    start = file.peek(4)
    stream: BinaryIO = file
    if start.startswith(_GZIP):
        stream = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
    elif start.startswith(_ZSTD):
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    while data := stream.read(_CHUNK):
        yield data


def _tail(chunks: Iterator[bytes]) -> Tail:
    kept: deque[bytes] = deque()
    size = lines_before = 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) >= KEPT:
            size -= len(kept[0])
            lines_before += kept.popleft().count(b"\n")
    content = b"".join(kept)
    return Tail(content[-KEPT:], lines_before + content[:-KEPT].count(b"\n"))
