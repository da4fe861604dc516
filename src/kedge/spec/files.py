"""Reads a job file as text. Every failure gives an error that the user can act on."""

from __future__ import annotations

import os
import stat
import sys

from kedge import user_files
from kedge.errors import InputError, Problem
from kedge.spec.suggest import did_you_mean

STDIN = "<stdin>"
MAX_FILE_BYTES = 4 << 20  # a job with a thousand roles is far smaller


def named(path: str | os.PathLike[str]) -> str:
    """The name of a job file in messages: its path, or STDIN for `-` and for a pipe passed to this process."""
    name = os.fspath(path)
    return STDIN if name == "-" or user_files.is_given(name) else name


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a regular UTF-8 file of at most 4 MiB, including a byte order mark. `-` is stdin; the shell's
    `<(…)` works too.

    InputError: the file does not exist, cannot be read, is not a regular file, is too large, or is not UTF-8.
    """
    name = os.fspath(path)
    if name == "-":
        return decode(_read_stdin(), STDIN)
    try:
        data = _read(name)
    except FileNotFoundError:
        raise _refused(name, f"there is no such file{_similar(name)}") from None
    except PermissionError:
        raise _refused(name, "it cannot be read: permission denied") from None
    except (OSError, ValueError) as error:
        raise _refused(name, f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return decode(data, name)


def decode(data: bytes, file: str) -> str:
    """The bytes of a job file as text. InputError: they are not UTF-8 text; it names the offset."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _refused(file, "this looks like UTF-16; save the file as UTF-8")
    if (zero := data.find(b"\0")) >= 0:
        raise _refused(file, f"this is not a text file: it has a NUL byte at offset {zero}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{data[error.start]:02x} at offset {error.start} (line {line}) is not UTF-8"
        raise _refused(file, f"{message}; save the file as UTF-8") from None


def too_large(file: str, size: str) -> InputError:
    """The error for a job file larger than MAX_FILE_BYTES."""
    return _refused(file, f"the limit for a job file is {MAX_FILE_BYTES >> 20} MiB, and this one has {size}")


def _read(name: str) -> bytes:
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if user_files.is_given(name) and stat.S_ISFIFO(status.st_mode):
            os.set_blocking(descriptor, True)
        elif not stat.S_ISREG(status.st_mode):
            raise _refused(name, f"it is {user_files.kind(status.st_mode)}, not a job file")
        if status.st_size > MAX_FILE_BYTES:
            raise too_large(name, f"{status.st_size / (1 << 20):.1f} MiB")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)  # it may be growing, and files in /proc report a size of 0
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise too_large(name, "more")
    return data


def _read_stdin() -> bytes:
    try:
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refused(STDIN, f"it cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise too_large(STDIN, "more")
    return data


def _similar(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        return did_you_mean(base, os.listdir(folder or "."))
    except OSError:
        return ""


def _refused(file: str, message: str) -> InputError:
    return InputError(Problem(file or "''", 0, 0, "", message))
