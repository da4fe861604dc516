"""Bytes of a log as Go's regexp reads them, so that `.` in a pattern matches one character: valid UTF-8 is unchanged,
and each invalid byte counts as one U+FFFD. RE2's UTF-8 mode alone would match nothing across an invalid byte."""

from __future__ import annotations

import re

_STRAY = re.compile("[\udc80-\udcff]")  # surrogateescape's replacements for invalid bytes


def valid(content: bytes) -> bytes:
    """The same characters in valid UTF-8; `content` itself if it is valid."""
    if content.isascii():
        return content
    text = content.decode("utf-8", "surrogateescape")
    try:
        text.encode()
    except UnicodeEncodeError:
        return _STRAY.sub("\ufffd", text).encode()
    return content


def offset(content: bytes, of_valid: bytes, at: int) -> int:
    """The offset in `content` that corresponds to the offset `at` in `of_valid`, which is `valid(content)`."""
    if of_valid is content:
        return at
    count = len(of_valid[:at].decode())
    return len(content.decode("utf-8", "surrogateescape")[:count].encode("utf-8", "surrogateescape"))
