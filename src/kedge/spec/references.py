"""References in strings, with their places in a job file."""

from __future__ import annotations

import re

from kedge.spec.model import JobFileSource, Mark, Path
from kedge.spec.reference_syntax import (
    CLOSE,
    OPEN,
    ROOTS,
    SPACE,
    WHERE_THEY_WORK,
    Reference,
    TagError,
    Unresolved,
    lookup,
    split,
)

__all__ = [
    "CLOSE", "OPEN", "ROOTS", "SPACE", "WHERE_THEY_WORK", "Reference", "TagError", "Unresolved", "locate", "lookup",
    "split",
]  # fmt: skip


def locate(source: JobFileSource, path: Path, tag: str, occurrence: int = 0) -> Mark:
    """The position of a tag in the scalar at `path`; `occurrence` counts equal tags from 0.

    If the scalar is written with escapes that hide the tag, the scalar's own mark.
    """
    mark = source.mark(path)
    # Folding may have replaced a line break and the following indentation with a space.
    written = re.compile(r"\s+".join(re.escape(word) for word in tag.split()))
    for found in written.finditer(source.text, mark.offset, mark.end):
        if occurrence == 0:
            return _moved(source.text, mark, found.start())
        occurrence -= 1
    return mark


def _moved(text: str, mark: Mark, offset: int) -> Mark:
    lines = text[mark.offset : offset].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    column = len(lines[-1]) + (mark.column if len(lines) == 1 else 1)
    return Mark(mark.line + len(lines) - 1, column, None, offset, mark.end)
