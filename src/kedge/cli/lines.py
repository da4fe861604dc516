"""Log lines of many tasks on one console: `worker:0 | text`."""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

from kedge.cli.streams import styled
from kedge.cli.terminal_text import terminal_text

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


class LinePrinter:
    """Writes lines to stdout, prefixed with their task; in colour where stdout is a terminal."""

    def __init__(self, tasks: list[str]) -> None:
        self._width = max(map(len, tasks), default=0)
        self._colour = sys.stdout.isatty()

    def __call__(self, task: str, line: bytes) -> None:
        # Of a progress bar only the last state is left on a terminal; here likewise.
        shown = line.rstrip(b"\r\n").rpartition(b"\r")[2]
        sys.stdout.buffer.write(self._prefix(task) + terminal_text(shown) + b"\n")

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def _prefix(self, task: str) -> bytes:
        text = f"{task:<{self._width}} | "
        if self._colour:
            text = styled(text, fg=_COLOURS[zlib.crc32(task.encode()) % len(_COLOURS)])
        return text.encode()


def print_json(value: dict[str, Any]) -> None:
    """One event as one line."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
