"""Where the keys and values of a TOML text stand, which tomllib does not report.

It reads only texts that tomllib has accepted, so it looks for the borders of keys and values and checks nothing.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from itertools import accumulate

from kedge.late_patterns import late_pattern
from kedge.spec.model import Mark, Path

_BLANK = late_pattern(r"(?:[ \t\n]|#[^\n]*)*")
_KEY = late_pattern(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_TEXT = late_pattern(
    r'''"""(?:[^"\\]|\\[\s\S]|"(?!""))*"""(?:"{1,2}(?!"))?|\'\'\'(?:[^']|'(?!''))*\'\'\'(?:'{1,2}(?!'))?'''
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'"""
)
_PLAIN = late_pattern(r"[^,\]}#\n]*")


class TomlPlaces:
    """The marks of all values, and of all keys, by path."""

    def __init__(self, text: str) -> None:
        self.values: dict[Path, Mark] = {(): Mark(1, 1)}
        self.keys: dict[Path, Mark] = {}
        self._text = text
        self._at = 0
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self._counts: dict[Path, int] = {}  # the tables so far of each array of tables
        self._document()

    def _document(self) -> None:
        table: Path = ()
        while self._skip(_BLANK) < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        """`[a.b]` or `[[a.b]]`; returns the path of the table."""
        is_array = self._text.startswith("[[", self._at)
        self._at += 1 + is_array
        path = self._key((), to_last=True, is_array=is_array)
        self._at += 1 + is_array
        if is_array:
            number = self._counts[path] = self._counts.get(path, -1) + 1
            path = (*path, number)
            self.values[path] = self.keys[path[:-1]]
        return path

    def _pair(self, table: Path) -> None:
        """`key = value`."""
        path = self._key(table)
        self._at += 1
        self._value(path)

    def _key(self, table: Path, *, to_last: bool = False, is_array: bool = False) -> Path:
        """A dotted key below a table. `to_last`: a name of an array of tables before the last one, and the last one if
        it is not `is_array`, means its last table."""
        path = table
        while True:
            found = _KEY.match(self._text, self._at)
            assert found, "tomllib has accepted the text"
            self._at = found.end()
            path = (*path, _name(found[1]))
            mark = self._mark(found.start(1), found.end(1))
            self.keys.setdefault(path, mark)
            self.values.setdefault(path, mark)
            more = self._text[self._at] == "."
            if to_last and path in self._counts and (more or not is_array):
                path = (*path, self._counts[path])
            if not more:
                return path
            self._at += 1

    def _value(self, path: Path) -> None:
        self._skip(_BLANK)
        start, first = self._at, self._text[self._at]
        if first == "[":
            self._items(path)
        elif first == "{":
            self._inline_table(path)
        elif first in "\"'":
            self._skip(_TEXT)
        else:
            self._at = start + len(self._text[start : self._skip(_PLAIN)].rstrip())
        self.values[path] = self._mark(start, self._at)

    def _items(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._text[self._skip(_BLANK)] != "]":
            self._value((*path, number))
            number += 1
            if self._text[self._skip(_BLANK)] == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while self._text[self._skip(_BLANK)] != "}":
            self._pair(path)
            if self._text[self._skip(_BLANK)] == ",":
                self._at += 1
        self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        assert found, "tomllib has accepted the text"
        self._at = found.end()
        return self._at

    def _mark(self, start: int, end: int) -> Mark:
        line = bisect_right(self._starts, start)
        return Mark(line, start - self._starts[line - 1] + 1, self._text[start:end], start, end)


def _name(written: str) -> str:
    if written[0] not in "\"'":
        return written
    return next(iter(tomllib.loads(f"{written} = 0")))
