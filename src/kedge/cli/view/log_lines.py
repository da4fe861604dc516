"""Log lines of many tasks on one console: `worker:0 | text`."""

from __future__ import annotations

import json
import os
import sys
import zlib
from typing import Any, TextIO

import click

from kedge.cli.streams import plain, styled
from kedge.terminal_text import decoded, folded, is_plain, one_line, terminal_text, without_colours

# Readable on dark and light terminals; red is reserved for failures.
_COLOURS = (
    "cyan",
    "green",
    "yellow",
    "blue",
    "magenta",
    "bright_cyan",
    "bright_green",
    "bright_blue",
    "bright_magenta",
)
_NARROWEST = 10  # columns for a task's text; a narrower terminal wraps the text itself
_MESSAGE_PREFIX = "kedge: "


class LinePrinter:
    """Writes lines to stdout, prefixed with their task, in colour if stdout is a terminal.

    A task's output cannot control the terminal: it appears in its own line and in continuation rows, which begin with
    ` | ` too. With `raw` the bytes are written unchanged. Without `prefixed` the terminal wraps the lines.
    """

    def __init__(self, tasks: list[str], raw: bool = False, prefixed: bool = True) -> None:
        self._width = max(map(len, tasks), default=0)
        self._terminal = sys.stdout.isatty()
        self._raw, self._prefixed = raw, prefixed

    def __call__(self, task: str, line: bytes) -> None:
        if self._raw:
            ended = line if line.endswith(b"\n") else line + b"\n"
            sys.stdout.buffer.write(self._prefix(task).encode() + ended)
            return
        # A terminal shows only the last state of a progress bar, and so does kedge.
        rows = self._rows(line.rstrip(b"\r\n").rpartition(b"\r")[2])
        if self._prefixed:
            rows = [self._prefix(task if number == 0 else "") + row for number, row in enumerate(rows)]
        sys.stdout.buffer.write("".join(f"{row}\n" for row in rows).encode(sys.stdout.encoding, "backslashreplace"))

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def _rows(self, line: bytes) -> list[str]:
        text = line.decode("ascii") if is_plain(line) else terminal_text(decoded(line))
        if not self._terminal:
            return [text]
        if plain():
            text = without_colours(text)
        return folded(text, _columns(sys.stdout, self._width + 3)) if self._prefixed else [text]

    def _prefix(self, task: str) -> str:
        text = f"{one_line(task):<{self._width}} | "
        if self._terminal and task:
            text = styled(text, fg=_COLOURS[zlib.crc32(task.encode()) % len(_COLOURS)])
        return text


def print_message(message: str) -> None:
    """Print a message of kedge to stderr, on one line, so that quoted text cannot look like a line of its own."""
    text = one_line(message)
    indent = len(_MESSAGE_PREFIX)
    rows = folded(text, _columns(sys.stderr, indent)) if sys.stderr.isatty() else [text]
    click.echo(styled(_MESSAGE_PREFIX, bold=True) + f"\n{' ' * indent}".join(rows), err=True)


def print_whole(message: str) -> None:
    """Print a message of kedge to stderr without folding it, so that a command in it can be copied."""
    click.echo(styled(_MESSAGE_PREFIX, bold=True) + one_line(message), err=True)


def _columns(stream: TextIO, prefix: int) -> int:
    """The columns left of a row after a prefix. The last column stays empty: some terminals wrap as soon as it is
    filled."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    return max((columns or 80) - 1 - prefix, _NARROWEST)


def print_json(value: dict[str, Any]) -> None:
    """One event as one line."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
