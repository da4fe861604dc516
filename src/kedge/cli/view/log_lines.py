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

# Readable on dark and on light terminals; red is left for failures.
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
_NARROWEST = 10  # columns for a task's text; a terminal that has not even those may wrap it
_KEDGE = "kedge: "


class LinePrinter:
    """Writes lines to stdout, prefixed with their task; in colour where stdout is a terminal.

    What a task prints can do nothing but appear in its line, and in rows below it that begin with ` | ` too. With `raw`
    it is written as it is. Without `prefixed` nothing else is shown, and so the terminal may wrap the lines.
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
        # Of a progress bar only the last state is left on a terminal; here likewise.
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
        return folded(text, _room(sys.stdout, self._width + 3)) if self._prefixed else [text]

    def _prefix(self, task: str) -> str:
        text = f"{one_line(task):<{self._width}} | "
        if self._terminal and task:
            text = styled(text, fg=_COLOURS[zlib.crc32(task.encode()) % len(_COLOURS)])
        return text


def say(words: str) -> None:
    """What kedge itself says between the lines, to stderr; what it quotes cannot look like a line of its own."""
    text = one_line(words)
    rows = folded(text, _room(sys.stderr, len(_KEDGE))) if sys.stderr.isatty() else [text]
    click.echo(styled(_KEDGE, bold=True) + f"\n{' ' * len(_KEDGE)}".join(rows), err=True)


def _room(stream: TextIO, prefix: int) -> int:
    """How many columns a row has behind a prefix, one less than the terminal: some go on in the next row at once."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    return max((columns or 80) - 1 - prefix, _NARROWEST)


def print_json(value: dict[str, Any]) -> None:
    """One event as one line."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
