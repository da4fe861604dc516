"""Bytes of a log as Go's regexp reads them, so that `.` in a pattern is a character: valid UTF-8 stays as it is, and
each byte that is none counts as one U+FFFD. RE2's UTF-8 mode alone would match nothing across such a byte."""

from __future__ import annotations

import re

_STRAY = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of a byte that is no UTF-8


def valid(content: bytes) -> bytes:
    """The same characters in valid UTF-8; `content` itself where that is valid."""
    if content.isascii():
        return content
    text = content.decode("utf-8", "surrogateescape")
    try:
        text.encode()
    except UnicodeEncodeError:
        return _STRAY.sub("\ufffd", text).encode()
    return content


def offset(content: bytes, of_valid: bytes, at: int) -> int:
    """The offset in `content` of what stands at `at` in `of_valid`, which is `valid(content)`."""
    if of_valid is content:
        return at
    count = len(of_valid[:at].decode())
    return len(content.decode("utf-8", "surrogateescape")[:count].encode("utf-8", "surrogateescape"))
