"""Text with colours and weights. The library rich does more of this, but takes a quarter of `kedge ps` to load."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

_ATTRIBUTES = {"bold": "1", "dim": "2"}
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36", "bright_black": "90"}
_TAB = 8  # columns


class Text:
    """A line. `style` holds words, such as `bold red`, that apply to all of it; each part may add some."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self._style = style
        self._parts: list[tuple[str, str]] = [(text, "")] if text else []

    @classmethod
    def assemble(cls, *parts: tuple[str, str] | Text) -> Text:
        """A line of parts: texts with their style, and lines."""
        made = cls()
        for part in parts:
            made.append(part) if isinstance(part, Text) else made.append(*part)
        return made

    def append(self, text: str | Text, style: str = "") -> Text:
        """Add a text at the end, and return the line."""
        added = [(text, "")] if isinstance(text, str) else text._styled()
        self._parts += [(part, f"{below} {style}") for part, below in added]
        return self

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(part for part, _ in self._parts)

    def divide(self, starts: Iterable[int]) -> list[Text]:
        """The pieces of the line that begin at 0 and at these offsets, without white space at their ends."""
        bounds = [0, *starts, len(self.plain)]
        return [self._slice(first, last) for first, last in pairwise(bounds)]

    def _slice(self, first: int, last: int) -> Text:
        last = first + len(self.plain[first:last].rstrip())
        piece, at = Text(style=self._style), 0
        for part, style in self._parts:
            piece.append(part[max(0, first - at) : max(0, last - at)], style)
            at += len(part)
        return piece

    def __str__(self) -> str:
        """The line for stdout: with styles if that is a terminal, and with tabs expanded as one would."""
        shows_styles, column, shown = _shows_styles(), 0, ""
        for part, style in self._styled():
            text = ""
            for number, piece in enumerate(part.split("\t")):
                text += " " * (_TAB - column % _TAB) * bool(number) + piece
                column += (_TAB - column % _TAB) * bool(number) + columns(piece)
            codes = _codes(style) if shows_styles and text else ""
            shown += f"\x1b[{codes}m{text}\x1b[0m" if codes else text
        return shown

    def _styled(self) -> list[tuple[str, str]]:
        return [(part, f"{self._style} {style}") for part, style in self._parts]


def columns(text: str) -> int:
    """How many columns a terminal uses for a text."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _shows_styles() -> bool:
    return (bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()) and os.environ.get("TERM") != "dumb"


def _codes(style: str) -> str:
    """The parameters of the control sequence for a style; of several colours the last counts."""
    words = style.split()
    codes = [code for word, code in _ATTRIBUTES.items() if word in words]
    if not os.environ.get("NO_COLOR"):
        codes += [_COLOURS[word] for word in words if word in _COLOURS][-1:]
    return ";".join(codes)
