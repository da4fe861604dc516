"""Tables and wrapped text for people, on a terminal or in a pipe."""

from __future__ import annotations

import re
import sys

import click

from kedge.cli.view.styled_text import Text, columns
from kedge.terminal_text import one_line

_GAP = "  "  # between columns


class Table:
    """A table without rules; the columns in `right` are right-aligned. Nothing is cut: an id must stay whole to be
    copied, and a narrow terminal wraps lines."""

    def __init__(self, *names: str, right: tuple[str, ...] = ()) -> None:
        self._right = [name in right for name in names]
        self._rows: list[list[Text]] = [[Text(name, "bold") for name in names]]

    def add_row(self, *cells: str | Text) -> None:
        """Add a row below."""
        self._rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])

    def __str__(self) -> str:
        """The lines for stdout."""
        widths = [max(columns(cell.plain) for cell in column) for column in zip(*self._rows, strict=True)]
        return "\n".join(_GAP.join(map(_padded, row, widths, self._right)).rstrip() for row in self._rows)


def show(what: Text | Table | str = "") -> None:
    """Print a line or a table to stdout."""
    click.echo(str(what), color=True)


def wrapped(line: Text | str, indent: int = 0) -> list[Text]:
    """The line in pieces that fit the terminal beside `indent` columns, broken between words only, so that paths stay
    whole. In one piece if stdout is not a terminal."""
    text = Text(one_line(line)) if isinstance(line, str) else line
    if not sys.stdout.isatty():
        return [text]
    import shutil  # slow to load, and not needed in a pipe

    width, starts, used = shutil.get_terminal_size().columns - indent, [], 0
    for word in re.finditer(r"\S+\s*", text.plain):
        if used and used + columns(word[0].rstrip()) > width:
            starts.append(word.start())
            used = 0
        used += columns(word[0])
    return text.divide(starts)


def _padded(cell: Text, width: int, right: bool) -> str:
    space = " " * (width - columns(cell.plain))
    return space + str(cell) if right else str(cell) + space
