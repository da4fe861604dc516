"""Tables and texts for people, on a terminal or in a pipe."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

_WIDTH = 250  # wide enough that nothing is cut: an id must stay whole to be copied


def console() -> Console:
    """Writes to stdout; lines are as long as they need to be, and a narrow terminal wraps them."""
    return Console(highlight=False, soft_wrap=True, width=_WIDTH)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines; the columns in `right` are aligned right."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left")
    return made
