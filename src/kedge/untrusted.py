"""Reading untrusted files: they may come from a task, another program or a damaged disk.

A file is opened without following links out of its folder, must be regular, never blocks its reader, and is read up to
a limit. Whether values from JSON have the expected types is checked in `untrusted_values`.
"""

from __future__ import annotations

import errno
import os
import stat

from kedge.light import json
from kedge.light.types import Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_REGULAR = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO})  # errors of open(2) for links and sockets
_PIECE = 1 << 16
DEEPEST = 64  # levels of nested lists and mappings
_LONGEST_NUMBER = 19  # digits: numbers that fit into 64 bits, and so into a time or a float


def open_folder(folder: str | os.PathLike[str], name: str = "") -> int:
    """Open the folder `name` below `folder`. OSError also if a part of `name` is a link, which could lead anywhere."""
    at = os.open(folder, FOLDER)
    for each in filter(None, name.split("/")):
        outer = at
        try:
            at = os.open(each, FOLDER | os.O_NOFOLLOW, dir_fd=outer)
        finally:
            os.close(outer)
    return at


def open_regular(folder: str | os.PathLike[str], name: str) -> int:
    """Open the file `name` below `folder` for reading.

    FileNotFoundError also if the file or a part of `name` is a link, and if the file is not regular: reading a pipe
    could block for ever.
    """
    parent, _, last = name.rpartition("/")
    try:
        at = open_folder(folder, parent)
        try:
            fd = os.open(last, _FILE | os.O_NOFOLLOW, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        if error.errno not in _NOT_REGULAR:
            raise
    else:
        if is_regular(fd):
            return fd
    raise FileNotFoundError(errno.ENOENT, "not a regular file", f"{os.fspath(folder)}/{name}")


def is_regular(fd: int) -> bool:
    """Whether a descriptor is that of a regular file; any other one is closed."""
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    os.close(fd)
    return False


def read(folder: str | os.PathLike[str], name: str, limit: int) -> bytes:
    """Read the file `name` below `folder`. OSError as from `open_regular`, and if it is larger than `limit` bytes."""
    return _read(open_regular(folder, name), limit, f"{os.fspath(folder)}/{name}")


def read_path(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read the regular file at a trusted path, which may be a link. OSError if it is another kind of file or larger
    than `limit` bytes."""
    fd = os.open(path, _FILE)
    if not is_regular(fd):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return _read(fd, limit, os.fspath(path))


def _read(fd: int, limit: int, path: str) -> bytes:
    try:
        data = read_up_to(fd, limit)
    finally:
        os.close(fd)
    if data is None:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB", path)
    return data


def read_up_to(fd: int, limit: int) -> bytes | None:
    """Read a descriptor to its end. None if there are more than `limit` bytes."""
    if os.fstat(fd).st_size > limit:
        return None
    pieces, left = [], limit + 1  # the file may grow meanwhile, and files in /proc report a size of 0
    while left > 0 and (data := os.read(fd, min(left, _PIECE))):
        pieces.append(data)
        left -= len(data)
    return b"".join(pieces) if left > 0 else None


def read_json(folder: str | os.PathLike[str], name: str, limit: int) -> Any:
    """Read a JSON file. OSError as from `read`, ValueError as from `parse`."""
    return parse(read(folder, name, limit))


def parse(data: bytes) -> Any:
    """Parse JSON. Anything that is not valid in UTF-8 is replaced.

    ValueError for invalid JSON, for numbers that do not fit into 64 bits, for NaN, and for too deeply nested values.
    """
    try:
        value = _DECODER.decode(data.decode(errors="replace"))
        if b"\\ud" in data or b"\\uD" in data:  # perhaps a lone surrogate
            value = json.loads(_without_escapes(value).encode(errors="replace"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if data.count(b"[") + data.count(b"{") > DEEPEST and is_deeper(value, DEEPEST):
        raise ValueError("it is nested too deeply")
    return value


def _without_escapes(value: Any) -> str:
    from json import dumps

    return dumps(value, ensure_ascii=False)


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a value of JSON has more levels of lists and mappings."""
    level = [value]
    for _ in range(levels):
        mappings = [inner for each in level if isinstance(each, dict) for inner in each.values()]
        level = [inner for each in level if isinstance(each, list) for inner in each] + mappings
    return bool(level)


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("a number in it is too large")
    return int(text)


def _fraction(text: str) -> float:
    number = float(text)
    if number - number:  # infinite: 1e999
        raise ValueError("a number in it is too large")
    return number


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")


_DECODER = json.Decoder(parse_int=_number, parse_float=_fraction, parse_constant=_refuse)
