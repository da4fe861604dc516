"""Logs to diagnose, plain or compressed, from files or stdin. The end of each is kept, and from the earlier part the
few places that may show a failure."""

from __future__ import annotations

import io
import os
import stat
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import zstandard

from kedge import user_files
from kedge.diagnose import regex
from kedge.diagnose.log.anchors import AFTER, ANCHORS, BEFORE, FirstAndLast
from kedge.diagnose.model import LOG_TAIL
from kedge.errors import InputError

_CHUNK = 1 << 18
_SAMPLE = 1 << 16  # bytes that decide whether a file is text; control characters of terminals count as text
_NOT_TEXT = bytes(set(range(32)) - set(b"\b\t\n\r\x1b")) + b"\x7f"
_BLANK = b"\0\t\n\r "
_COMPRESSED_CHUNK = 1 << 10  # bytes; 1000 bytes may expand to 30 MB
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class LogPart(NamedTuple):
    """Whole lines of a log, and the number of lines before them."""

    content: bytes
    lines_before: int


class LogAtHand(NamedTuple):
    """The end of a log, and the number of lines before it. `cut`: the compressed file is truncated. `earlier`: pieces
    around the first and the last earlier places that may show a failure."""

    content: bytes
    lines_before: int
    cut: bool = False
    earlier: tuple[LogPart, ...] = ()

    @property
    def unreadable(self) -> str:
        """Why it cannot be read as a log: `empty` or `not text`; an empty string if it can."""
        sample = self.content[:_SAMPLE]
        if not sample.strip(_BLANK) and not self.content.strip(_BLANK):
            return "empty"
        return "not text" if len(sample.translate(None, _NOT_TEXT)) < 0.9 * len(sample) else ""


class _Decompressor(Protocol):
    """The common part of zlib's and zstandard's decompressors; each takes one member, or frame, of a file."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def read_tail(path: str) -> LogAtHand:
    """The last LOG_TAIL bytes of a log; `-` is stdin. gzip and zstd are recognised by content, not by file name.

    InputError if the log cannot be read, or its compressed data is damaged.
    """
    try:
        mode = os.stat(path).st_mode if path != "-" and not user_files.is_given(path) else stat.S_IFREG
        if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):  # /dev/zero never ends, and a task may have made a FIFO
            raise InputError(f"{path} is {user_files.kind(mode)}, not a log; use - for stdin")
        with open(sys.stdin.fileno() if path == "-" else path, "rb", closefd=path != "-") as file:
            return _tail(_chunks(file))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{path}: the compressed data is damaged: {error}") from error


def _chunks(file: io.BufferedReader) -> Iterator[bytes]:
    start = file.peek(4)
    if start.startswith(_GZIP_MAGIC):
        yield from _decompressed(file, lambda: zlib.decompressobj(16 + zlib.MAX_WBITS))
    elif start.startswith(_ZSTD_MAGIC):
        yield from _decompressed(file, zstandard.ZstdDecompressor().decompressobj)
    else:
        size = os.fstat(file.fileno()).st_size
        yield file.read(size if size <= LOG_TAIL else _CHUNK)  # a whole file need not be copied from pieces
        while data := file.read(_CHUNK):
            yield data


def _decompressed(file: io.BufferedReader, new_member: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """The content of all members of a compressed file. EOFError at the end if the last member is truncated."""
    member = new_member()
    while data := file.read(_COMPRESSED_CHUNK):
        while data := data.lstrip(b"\0") if member.eof else data:  # some writers pad their last block with zeros
            member = new_member() if member.eof else member
            yield member.decompress(data)
            data = member.unused_data
    if not member.eof:
        raise EOFError


def _tail(chunks: Iterator[bytes]) -> LogAtHand:
    kept: deque[bytes] = deque()
    size = lines_before = 0
    cut, earlier = False, FirstAndLast[LogPart]()
    try:
        for chunk in chunks:
            kept.append(chunk)
            size += len(chunk)
            while size - len(kept[0]) >= LOG_TAIL:
                past = kept.popleft()
                size -= len(past)
                for piece in _around_anchors(past, kept[0], lines_before):
                    earlier.add(piece)
                lines_before += past.count(b"\n")
    except EOFError:
        cut = True
    content = b"".join(kept)
    return LogAtHand(content[-LOG_TAIL:], lines_before + content[:-LOG_TAIL].count(b"\n"), cut, tuple(earlier))


def _around_anchors(chunk: bytes, after: bytes, lines_before: int) -> Iterator[LogPart]:
    """The lines around the first and the last occurrence of each anchor in a chunk; `after` is the next chunk."""
    found = {anchor: at for anchor in ANCHORS if (at := regex.find(anchor, chunk)) >= 0}
    places = {*found.values(), *(chunk.rfind(anchor) for anchor in found)}
    done = 0
    for at in sorted(places):
        start = max(done, chunk.rfind(b"\n", 0, max(0, at - BEFORE)) + 1)
        if at < start:
            continue
        text = chunk[start : at + AFTER] + after[: max(0, at + AFTER - len(chunk))]
        text = text[: text.rfind(b"\n") + 1]
        yield LogPart(text, lines_before + chunk.count(b"\n", 0, start))
        done = start + len(text)
