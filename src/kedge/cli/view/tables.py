"""Tables and wrapped text for people, on a terminal or in a pipe."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kedge.terminal_text import one_line

_WIDTH = 250  # wide enough to truncate nothing: an id must stay whole to be copied


def console() -> Console:
    """A console on stdout; lines are as long as they need to be, and a narrow terminal wraps them."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=_WIDTH)


def wrapped(line: Text | str, indent: int = 0) -> Iterable[Text]:
    """The line in pieces that fit the terminal beside `indent` columns, broken between words only, so that paths stay
    whole. In one piece if stdout is not a terminal."""
    text = Text(one_line(line)) if isinstance(line, str) else line
    if not sys.stdout.isatty():
        return [text]
    width, starts, used = shutil.get_terminal_size().columns - indent, [], 0
    for word in re.finditer(r"\S+\s*", text.plain):
        if used and used + cell_len(word[0].rstrip()) > width:
            starts.append(word.start())
            used = 0
        used += cell_len(word[0])
    pieces = text.divide(starts)
    for piece in pieces:
        piece.rstrip()
    return pieces


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without rules; the columns in `right` are right-aligned."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left")
    return made
