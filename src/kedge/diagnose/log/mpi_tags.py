"""Joining lines that mpirun's `--tag-output` has cut into pieces.

mpirun puts a tag before every piece that it reads from a process, even inside a line. Unbuffered Python writes a
traceback in many pieces, mixed with those of other ranks: `[1,2]<stderr>:KeyError[1,2]<stderr>:: [1,2]<stderr>:'lr'`.
"""

from __future__ import annotations

from kedge.diagnose.regex import find, regex

MARK = b"]<std"
# Open MPI 4 writes `[1,2]<stderr>:`, Open MPI 5 `[prterun-node1-4711@1,2]<stderr>: `.
TAG = rb"\[(?:[\w.@\-]+, ?)?\d+\](?:\[[^\[\]\n]*\])?<std(?:out|err)>:"


def joined(text: bytes) -> bytes:
    """The text with the pieces of each line joined at the place of the last one; nothing else is moved."""
    if find(MARK, text) < 0:
        return text
    pending: dict[bytes, bytes] = {}  # lines that have not ended yet, by their tag
    lines = [_line(line, pending) for line in text.split(b"\n")]
    return b"\n".join([*lines, *(tag + rest for tag, rest in pending.items())])


def _line(line: bytes, pending: dict[bytes, bytes]) -> bytes:
    if line.count(MARK) < 2 and not pending:
        return line
    tags = list(regex(TAG).finditer(line))
    if not tags:
        return line
    ends = [tag.start() for tag in tags[1:]] + [len(line)]
    for tag, end in zip(tags, ends, strict=True):
        pending[tag.group()] = pending.get(tag.group(), b"") + line[tag.end() : end]
    last: bytes = tags[-1].group()
    return line[: tags[0].start()] + last + pending.pop(last)
