"""Tracebacks in the form of IPython: from notebooks, and from programs that run notebooks (papermill, nbconvert).

---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
File /opt/lib/python3.10/site-packages/pandas/core/indexes/base.py:3791, in Index.get_loc(self, key)
   3790 try:
-> 3791     return self._engine.get_loc(casted_key)

KeyError: 'price'
"""

from __future__ import annotations

from kedge.diagnose.log.frames import Frame
from kedge.diagnose.log.log_text import LogLine
from kedge.diagnose.regex import regex
from kedge.light.types import NamedTuple, Sequence

_HEADER = rb"^([A-Za-z_][\w.]*) {2,}Traceback \(most recent call last\)\s*$"
# `File /a/b.py:12, in load(path)`, `~/b.py in load(path)`, `Cell In[3], line 2`, `<ipython-input-3-1a> in <module>`.
_FRAME = (
    rb"^(?:File )?(?P<file>[~/.][^\s:,]*\.py)(?::(?P<line>\d+))?,? in (?P<where>[^\s(]+)"
    rb"|^(?P<cell>(?:Cell|Input) In ?\[\d+\]|<ipython-input-[^>]+>)(?:, line (?P<at>\d+))?"
)
_FAILING = rb"^-+> ?(\d+) "


class Cells(NamedTuple):
    """The contents of such a traceback, and the index of the line where its message begins."""

    frames: tuple[Frame, ...]
    sources: tuple[LogLine, ...]
    message: int


def kind(header: bytes) -> bytes:
    """The exception's type if it is a header of IPython, else empty."""
    found = regex(_HEADER).match(header)
    return found.group(1) if found else b""


def read(raised: bytes, following: Sequence[LogLine]) -> Cells:
    """The frames and failing lines up to the line that begins with the exception's type."""
    name = raised.rsplit(b".", 1)[-1]
    frames: list[Frame] = []
    sources: list[LogLine] = []
    for count, line in enumerate(following):
        body = line.body
        if b"Traceback (most recent call last)" in body:
            return Cells(tuple(frames), tuple(sources), len(following))
        if body.split(b":", 1)[0].rstrip().rsplit(b".", 1)[-1] == name:
            return Cells(tuple(frames), tuple(sources), count)
        if frame := regex(_FRAME).match(body):
            frames.append(_frame(frame.groupdict()))
        elif failing := regex(_FAILING).match(body):
            sources.append(line)
            if frames and not frames[-1].line:
                frames[-1] = frames[-1]._replace(line=failing.group(1).decode())
    return Cells(tuple(frames), tuple(sources), len(following))


def _frame(found: dict[bytes, bytes | None]) -> Frame:
    text = {name.decode(): value.decode("utf-8", "replace") for name, value in found.items() if value}
    if "cell" in text:
        return Frame(text["cell"], text.get("at", ""), "<module>")
    return Frame(text["file"], text.get("line", ""), text["where"])
