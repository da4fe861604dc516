"""What the headers of an answer say. Whatever a server sends, each function has an answer or a clear error."""

from __future__ import annotations

import email.utils
import re
import time
from email.message import Message
from typing import NamedTuple

_DIGITS = re.compile("[0-9]{1,100}")
_PART = re.compile(r"bytes ([0-9]{1,100})-([0-9]{1,100})/([0-9]{1,100}|\*)")
_NOTHING_BEHIND = re.compile(r"bytes \*/([0-9]{1,100})")
_LONGEST_WAIT_SEC = 86_400.0
_LONGEST = 60  # characters of a header in a message


class Nonsense(Exception):
    """An answer that contradicts HTTP, or itself."""


class ByteRange(NamedTuple):
    """Bytes from `start` to before `end`, of `total` in all (None: the server does not say)."""

    start: int
    end: int
    total: int | None


def length(headers: Message) -> int | None:
    """How many bytes follow. Nonsense for what is no number, or several."""
    said = {each.strip() for line in headers.get_all("Content-Length", []) for each in line.split(",")}
    if not said:
        return None
    if len(said) > 1 or not _DIGITS.fullmatch(one := said.pop()):
        raise Nonsense(f"its Content-Length is {quoted(headers['Content-Length'])}")
    return int(one)


def part(headers: Message) -> ByteRange:
    """Which part of the file an answer 206 is. Nonsense if it does not say so."""
    text = (headers["Content-Range"] or "").strip()
    found = _PART.fullmatch(text)
    if not found:
        raise Nonsense(f"its Content-Range is {quoted(text)}" if text else "it sends a part without a Content-Range")
    start, last = int(found[1]), int(found[2])
    total = None if found[3] == "*" else int(found[3])
    announced = length(headers)
    if start > last or (total is not None and last >= total) or announced not in (None, last + 1 - start):
        raise Nonsense(f"its Content-Range is {quoted(text)} and its Content-Length {announced}")
    return ByteRange(start, last + 1, total)


def whole(headers: Message) -> int | None:
    """The size of the file, as an answer 416 has it."""
    found = _NOTHING_BEHIND.fullmatch((headers["Content-Range"] or "").strip())
    return int(found[1]) if found else None


def validator(headers: Message) -> str | None:
    """What If-Range takes to be sure that a file is still the same: a strong ETag, or a time of the last change that
    no second one can have shared (RFC 9110, 8.8.2.2). None if the server gives neither."""
    tag = (headers["ETag"] or "").strip()
    if re.fullmatch(r'"[\x21\x23-\x7e]*"', tag):
        return tag
    text = (headers["Last-Modified"] or "").strip()
    changed, now = _seconds_since_1970(text), _seconds_since_1970(headers["Date"])
    if changed is None or (now is not None and now - changed < 1) or not re.fullmatch("[ -~]{1,100}", text):
        return None
    return text


def wait_sec(text: str | None) -> float | None:
    """Retry-After in seconds, a day at most: a number, or a date (RFC 9110). None if it says nothing of use."""
    if text is None:
        return None
    if re.fullmatch("[0-9]+", text := text.strip()):
        return min(_LONGEST_WAIT_SEC, float(text[:20]))
    date = _seconds_since_1970(text)
    return None if date is None else min(_LONGEST_WAIT_SEC, max(0.0, date - time.time()))


def quoted(text: str) -> str:
    """A header for a message."""
    return ascii(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


def _seconds_since_1970(text: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, OverflowError, OSError, IndexError):
        return None
