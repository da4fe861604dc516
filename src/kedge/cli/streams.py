"""Makes the standard streams safe: they may be missing, on a full disk, closed by their reader, or without colours."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import Any

import click

from kedge.terminal_text import terminal_text

_ASCII = ("ascii", "us-ascii", "ansi_x3.4-1968")


def plain() -> bool:
    """Whether the user wants no colours (https://no-color.org) or the terminal has none."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def styled(text: str, **style: Any) -> str:
    """The text in one of click's styles, or unchanged if output is `plain`."""
    return text if plain() else click.style(text, **style)


class _Lossy(io.FileIO):
    """A file that discards what it cannot write (full disk, closed pipe): a job must not end, or fail to start, because
    a message cannot be printed."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_missing() -> None:
    """Replace standard streams that were closed at the start (`>&-`) by /dev/null, so that no other file takes their
    descriptors. Writing to stderr never fails."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets `fd`, the lowest free number
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115  standard streams stay open until the process ends
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    messages = io.BufferedWriter(_Lossy(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(messages, encoding, errors="backslashreplace", line_buffering=True)


class SafeText(io.TextIOWrapper):
    """A stream whose text cannot control the terminal: a message may quote a file, a server or a plugin."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        encoding = "utf-8" if stream.encoding.lower() in _ASCII else stream.encoding  # as click does
        super().__init__(stream.buffer, encoding, "backslashreplace", line_buffering=stream.line_buffering)
        self._stream = stream  # keeps it alive: it would close the file when collected

    def write(self, text: str) -> int:
        super().write(terminal_text(text, newlines=True))
        return len(text)


def protect() -> None:
    """From now on no text written to stdout or stderr can control the terminal. Bytes are written unchanged."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = SafeText(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = SafeText(sys.stderr)


def reader_is_gone(error: OSError) -> bool:
    """Whether writing to stdout failed because its reader has gone: a pipe to `head`, a closed terminal."""
    return isinstance(error, BrokenPipeError) or (error.errno == errno.EIO and stat.S_ISCHR(os.fstat(1).st_mode))


def flush() -> OSError | None:
    """Flush stdout. Returns the error if that fails, unless the reader has gone."""
    try:
        sys.stdout.flush()
    except OSError as error:
        gone = reader_is_gone(error)
        # The interpreter must not flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if gone else error
    return None
