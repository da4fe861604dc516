"""Log lines of many tasks on one console: `worker:0 | text`."""

from __future__ import annotations

import json
import os
import sys
import zlib
from typing import Any, TextIO

import click

from kedge.cli.streams import plain, styled
from kedge.cli.times import LineTimes
from kedge.contract import timestamp
from kedge.runs.timed_log import LogSource, TaskLines
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

    def __init__(
        self, tasks: list[str], raw: bool = False, prefixed: bool = True, times: LineTimes | None = None
    ) -> None:
        self._width = max(map(len, tasks), default=0)
        self._terminal = sys.stdout.isatty()
        self._raw, self._prefixed, self._times = raw, prefixed, times
        self._labels: dict[LogSource, tuple[str, str]] = {}  # labels and prefixes

    def __call__(self, lines: TaskLines) -> None:
        label, prefix = self._labels.get(lines.source) or self._new_label(lines.source)
        time = self._times.shown(lines.time) + " " if self._times else ""
        data = lines.data.removesuffix(b"\n")
        if self._raw or (not self._terminal and is_plain(data)):
            start = (prefix + time).encode()
            sys.stdout.buffer.write(start + data.replace(b"\n", b"\n" + start) + b"\n")
            return
        for line in data.split(b"\n"):
            self._line(label, time, line)

    def _new_label(self, source: LogSource) -> tuple[str, str]:
        label = source.label
        if len(label) > self._width:
            self._width = len(label)
            self._labels.clear()
        self._labels[source] = label, self._prefix(label)
        return self._labels[source]

    def _line(self, label: str, time: str, line: bytes) -> None:
        # A terminal shows only the last state of a progress bar, and so does kedge.
        rows = self._rows(time, line.rstrip(b"\r").rpartition(b"\r")[2])
        rows = [self._prefix(label if number == 0 else "") + row for number, row in enumerate(rows)]
        sys.stdout.buffer.write("".join(f"{row}\n" for row in rows).encode(sys.stdout.encoding, "backslashreplace"))

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def _rows(self, time: str, line: bytes) -> list[str]:
        text = time + (line.decode("ascii") if is_plain(line) else terminal_text(decoded(line)))
        if not self._terminal:
            return [text]
        if plain():
            text = without_colours(text)
        return folded(text, _columns(sys.stdout, self._width + 3)) if self._prefixed else [text]

    def _prefix(self, task: str) -> str:
        if not self._prefixed:
            return ""
        text = f"{one_line(task):<{self._width}} | "
        if self._terminal and task:
            text = styled(text, fg=_COLOURS[zlib.crc32(task.partition(".")[0].encode()) % len(_COLOURS)])
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


def print_lines_as_json(lines: TaskLines, **facts: object) -> None:
    """An object for each line, with these facts."""
    source = lines.source
    known = {"event": "log", "task": source.task, "attempt": source.attempt, "task_attempt": source.task_attempt}
    known |= facts
    if lines.time is not None:
        known["time"] = timestamp(lines.time)
    for line in lines.data.removesuffix(b"\n").split(b"\n"):
        partial = {} if lines.last or lines.data.endswith(b"\n") else {"partial": True}  # of a long line; more follows
        print_json({**known, "line": line.decode(errors="replace"), **partial})


def print_json(value: dict[str, Any]) -> None:
    """One event as one line."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
