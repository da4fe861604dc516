"""Standard streams that are missing, full, not read any more, or without colours."""

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
    """Whether the user wants no colours (https://no-color.org) or the terminal knows none."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def styled(text: str, **style: Any) -> str:
    """The text in a style of click's, unless it is to be `plain`."""
    return text if plain() else click.style(text, **style)


def say_note(text: str) -> None:
    """Something that a user should know and need not do anything about."""
    click.echo(styled("note: ", fg="yellow") + text, err=True)


class _Lossy(io.FileIO):
    """A file on a full disk, or a pipe that nobody reads, takes all that is written: messages that cannot be said are
    no reason to end a job, or to begin none."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_missing() -> None:
    """Started without stdin, stdout or stderr (`>&-`): nothing else may get their descriptors, and writing is vain.
    Writing to stderr never fails."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free is this one
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115  open until the end, as streams are
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    messages = io.BufferedWriter(_Lossy(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(messages, encoding, errors="backslashreplace", line_buffering=True)


class SafeText(io.TextIOWrapper):
    """A stream whose text can only appear: a message may quote a file, a server or a plugin."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        encoding = "utf-8" if stream.encoding.lower() in _ASCII else stream.encoding  # as click has it
        super().__init__(stream.buffer, encoding, "backslashreplace", line_buffering=stream.line_buffering)
        self._stream = stream  # which would close the file when nobody has it any more

    def write(self, text: str) -> int:
        super().write(terminal_text(text, newlines=True))
        return len(text)


def protect() -> None:
    """Let nothing that is written as text from now on control a terminal. Bytes pass as they are."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = SafeText(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = SafeText(sys.stderr)


def reader_is_gone(error: OSError) -> bool:
    """Whether stdout cannot be written to because nobody reads it any more: a pipe to `head`, a closed terminal."""
    return isinstance(error, BrokenPipeError) or (error.errno == errno.EIO and stat.S_ISCHR(os.fstat(1).st_mode))


def flush() -> OSError | None:
    """Send out all that was printed. Returns why it could not be; a reader that has gone is no reason."""
    try:
        sys.stdout.flush()
    except OSError as error:
        gone = reader_is_gone(error)
        # The interpreter must not flush once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if gone else error
    return None
