"""Decides what a snapshot of a folder leaves out, by the .gitignore and .kedgeignore files at every level.

Like git, this decides folder by folder: a pattern is matched against each entry itself, never against its parents.
(Libraries that match whole paths get `*`, `!*/`, `!*.py` wrong.) Patterns: gitignore(5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kedge import user_files
from kedge.errors import InputError
from kedge.late_patterns import late_pattern

KEDGEIGNORE = ".kedgeignore"
_FILES = (KEDGEIGNORE, ".gitignore")  # the first one with a matching line decides
_LARGEST = 1 << 20  # bytes
_ALWAYS = ".git"

_Part = re.Pattern[str] | None  # None stands for `**`, any number of folders

_TOKEN = late_pattern(r"\*+|\?|\[[!^]?\]?(?:\\.|[^\\\]])*\]|\\.|[^*?\[\\]+|.", re.DOTALL)
_NEVER = late_pattern(r"(?!)")


class _Line(NamedTuple):
    """One line of an ignore file."""

    ignored: bool
    folders_only: bool
    parts: tuple[_Part, ...]


class Rules:
    """What is ignored in one folder, by the ignore files in it and in its parents up to the root of the snapshot."""

    def __init__(self, folder: Path, above: Rules | None = None) -> None:
        self._above = above
        self._name = folder.name
        self._lines = [_load(folder / name) for name in _FILES]

    def ignores(self, name: str, is_folder: bool) -> bool:
        """Whether an entry of this folder is left out. Do not ask about the content of an ignored folder."""
        if name == _ALWAYS:
            return True
        decisions = (self._decision(kind, (name,), is_folder) for kind in range(len(_FILES)))
        return next((decision for decision in decisions if decision is not None), False)

    def _decision(self, kind: int, path: tuple[str, ...], is_folder: bool) -> bool | None:
        """The decision of the deepest ignore file of a kind with a matching line, of which the last counts."""
        for line in self._lines[kind]:
            if (is_folder or not line.folders_only) and _matches(line.parts, path):
                return line.ignored
        return self._above._decision(kind, (self._name, *path), is_folder) if self._above else None


def _load(path: Path) -> list[_Line]:
    """The lines of an ignore file, last line first. Like git, this does not follow links."""
    if path.is_symlink() or not path.is_file():
        return []
    try:
        data = user_files.read(path, _LARGEST)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    found = (_parse(line.removesuffix("\r")) for line in text.split("\n"))
    return [line for line in found if line][::-1]


def _parse(line: str) -> _Line | None:
    text = _without_trailing_spaces(line)
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    pattern = text.removeprefix("!")
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    names = pattern.removeprefix("/").split("/")
    # A pattern without a slash matches at any depth.
    parts = (
        [None if name == "**" else _compile(name) for name in names] if "/" in pattern else [None, _compile(pattern)]
    )
    return _Line(not negated, folders_only, tuple(parts))


def _without_trailing_spaces(line: str) -> str:
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return text + " " if backslashes % 2 and text != line else text


def _compile(name: str) -> re.Pattern[str]:
    """The pattern of one part of a path. A malformed pattern matches nothing."""
    try:
        return re.compile("".join(map(_translate, _TOKEN.findall(name))), re.DOTALL)
    except re.error:  # a range like [z-a]
        return _NEVER


def _translate(token: str) -> str:
    if token[0] == "*":
        return ".*"
    if token == "?":
        return "."
    if token in ("[", "\\"):  # unterminated
        return _NEVER.pattern
    if token[0] == "\\":
        return re.escape(token[1])
    if token[0] == "[":
        negated = token[1] in "!^"
        inside = re.sub(r"\\?([\[\]&~|^\\])", r"\\\1", token[1 + negated : -1])
        return f"[{'^' if negated else ''}{inside}]"
    return re.escape(token)


def _matches(parts: Sequence[_Part], path: Sequence[str]) -> bool:
    if not parts or not path:
        return not parts and not path
    first, *rest = parts
    if first is None:
        # At the end `**` matches everything below; elsewhere it may also match nothing.
        return not rest or any(_matches(rest, path[skipped:]) for skipped in range(len(path)))
    return first.fullmatch(path[0]) is not None and _matches(rest, path[1:])
