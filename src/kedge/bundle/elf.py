"""Reading ELF files: their dynamic loader, and where the part that is loaded ends.

Only 64-bit little-endian files are supported: CPython on Linux uses no others today. Fields are those of elf(5).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"
_SEGMENTS_AT, _SECTIONS_AT, _COUNTS_AT = 32, 40, 54
_SECTION_COUNTS_AT = 58
_INTERPRETER = 3
_WORTH_STRIPPING = 1 << 16  # bytes


class _Segment(NamedTuple):
    kind: int
    offset: int
    size: int


def is_elf(data: bytes) -> bool:
    """Whether these are the bytes of an ELF file that this module reads."""
    return data.startswith(_MAGIC)


def interpreter(data: bytes) -> str | None:
    """The path of a program's dynamic loader. None for a library or a static program."""
    for segment in _segments(data):
        if segment.kind == _INTERPRETER:
            return data[segment.offset : segment.offset + segment.size].rstrip(b"\0").decode()
    return None


def without_symbols(data: bytes) -> bytes:
    """The file without the parts that the loader does not read: debugging information, symbols for the linker, the
    section table. Unchanged if that saves little."""
    end = max((segment.offset + segment.size for segment in _segments(data)), default=len(data))
    if len(data) - end < _WORTH_STRIPPING:
        return data
    short = bytearray(data[:end])
    struct.pack_into("<Q", short, _SECTIONS_AT, 0)
    struct.pack_into("<HH", short, _SECTION_COUNTS_AT + 2, 0, 0)
    return bytes(short)


def _segments(data: bytes) -> Iterator[_Segment]:
    if not is_elf(data):
        return
    (table,) = struct.unpack_from("<Q", data, _SEGMENTS_AT)
    size, count = struct.unpack_from("<HH", data, _COUNTS_AT)
    for position in range(table, table + size * count, size):
        kind, _flags, offset, _address, _physical, length = struct.unpack_from("<IIQQQQ", data, position)
        yield _Segment(kind, offset, length)
