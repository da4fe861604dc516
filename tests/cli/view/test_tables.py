"""A terminal shows our tables and lines as it shows those of rich."""

from __future__ import annotations

import io
from typing import Any

import pyte
import pytest
import rich.console
import rich.table
import rich.text
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.cli.view import tables
from kedge.cli.view.styled_text import Text

COLUMNS, ROWS = 120, 6
STYLES = ["", "bold", "dim", "red", "bold green", "bright_black", "cyan bold"]
TEXTS = st.text(st.sampled_from("ab-9 .é日\t"), max_size=12)
PARTS = st.lists(st.tuples(TEXTS, st.sampled_from(STYLES)), max_size=4)
CELLS = st.tuples(st.text(st.sampled_from("ab-9.é日"), max_size=12), st.sampled_from(STYLES))
LINES = st.tuples(TEXTS, st.sampled_from(STYLES), PARTS)


@pytest.fixture(autouse=True)
def styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def line(kind: Any, text: str, style: str, parts: list[tuple[str, str]]) -> Any:
    made = kind(text, style)
    for part in parts:
        made.append(*part)
    return kind.assemble(("label ", "bold cyan"), made)


def by_rich(what: Any) -> str:
    file = io.StringIO()
    width = 250
    rich.console.Console(
        file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width, legacy_windows=False
    ).print(what)
    return file.getvalue()


def screen(text: str) -> list[list[tuple[str, ...]]]:
    """What is seen: the characters with their colours and weights; those of spaces cannot be seen."""
    shown = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(shown).feed(text.replace("\n", "\r\n"))
    rows = [[shown.buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]
    return [[(c.data,) if c.data == " " else (c.data, c.fg, str(c.bold)) for c in row] for row in rows]


@given(LINES)
@settings(deadline=None, max_examples=50)
def test_a_line(given: Any) -> None:
    assert screen(f"{line(Text, *given)}\n") == screen(by_rich(line(rich.text.Text, *given)))


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4))
@settings(deadline=None, max_examples=20)
def test_a_table(rows: list[tuple[Any, ...]]) -> None:
    ours = tables.Table("NAME", "COUNT", "ä", right=("COUNT",))
    theirs = rich.table.Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("NAME", "COUNT", "ä"):
        theirs.add_column(name, justify="right" if name == "COUNT" else "left")
    for row in rows:
        ours.add_row(*(Text(text, style) for text, style in row))
        theirs.add_row(*(rich.text.Text(text, style) for text, style in row))
    assert screen(f"{ours}\n") == screen(by_rich(theirs))


def test_without_colours_and_on_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Text("a", "bold red").append("b", "green")
    assert str(text) == "\x1b[1;31ma\x1b[0m\x1b[1;32mb\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert str(text) == "\x1b[1ma\x1b[0m\x1b[1mb\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert str(text) == "ab"


def test_pieces_of_a_line_keep_their_styles_and_lose_white_space_at_the_end() -> None:
    pieces = Text("one ", "bold").append("two  three", "red").divide([4, 9])
    assert [piece.plain for piece in pieces] == ["one", "two", "three"]
    assert str(pieces[1]) == "\x1b[1;31mtwo\x1b[0m"


def test_no_row_ends_with_spaces() -> None:
    table = tables.Table("TASK", "NODE")
    for cells in (("w:0", "n1"), ("w:1", "a-long-name"), ("w:2", "")):
        table.add_row(*cells)
    rows = str(table).split("\n")
    assert [row for row in rows if row != row.rstrip()] == []
    assert rows[1] == "w:0   n1"
