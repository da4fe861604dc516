"""Bytes of a log as Go's regexp reads them, so that `.` in a pattern matches one character: valid UTF-8 is unchanged,
and each invalid byte counts as one U+FFFD. RE2's UTF-8 mode alone would match nothing across an invalid byte."""

from __future__ import annotations

import codecs

_EACH_BYTE = "kedge.each-byte"


def _each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_EACH_BYTE, _each_byte)


def valid(content: bytes) -> bytes:
    """The same characters in valid UTF-8; `content` itself if it is valid."""
    if content.isascii():
        return content
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("utf-8", _EACH_BYTE).encode()
    return content


def offset(content: bytes, of_valid: bytes, at: int) -> int:
    """The offset in `content` that corresponds to the offset `at` in `of_valid`, which is `valid(content)`."""
    if of_valid is content:
        return at
    count = len(of_valid[:at].decode())
    return len(content.decode("utf-8", "surrogateescape")[:count].encode("utf-8", "surrogateescape"))
