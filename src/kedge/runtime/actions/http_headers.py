"""Reading the headers of a response. Whatever a server sends, each function returns a valid value or raises a clear
error."""

from __future__ import annotations

import email.utils
import re
import time
from email.message import Message
from typing import NamedTuple

_DIGITS = re.compile("[0-9]{1,100}")
_PART = re.compile(r"bytes ([0-9]{1,100})-([0-9]{1,100})/([0-9]{1,100}|\*)")
_UNSATISFIED = re.compile(r"bytes \*/([0-9]{1,100})")
_LONGEST_WAIT_SEC = 86_400.0
_LONGEST = 60  # characters of a header in a message


class InvalidResponse(Exception):
    """A response that violates HTTP or contradicts itself."""


class ByteRange(NamedTuple):
    """The bytes from `start` up to but excluding `end`, of `total` (None: not known)."""

    start: int
    end: int
    total: int | None


def length(headers: Message) -> int | None:
    """The Content-Length, None without one. InvalidResponse if it is not a number, or there are different ones."""
    values = {each.strip() for line in headers.get_all("Content-Length", []) for each in line.split(",")}
    if not values:
        return None
    if len(values) > 1 or not _DIGITS.fullmatch(value := values.pop()):
        raise InvalidResponse(f"its Content-Length is {quoted(headers['Content-Length'])}")
    return int(value)


def part(headers: Message) -> ByteRange:
    """The part of the file that a response with status 206 contains. InvalidResponse without a valid Content-Range."""
    text = (headers["Content-Range"] or "").strip()
    found = _PART.fullmatch(text)
    if not found:
        message = f"its Content-Range is {quoted(text)}" if text else "it sends a part without a Content-Range"
        raise InvalidResponse(message)
    start, last = int(found[1]), int(found[2])
    total = None if found[3] == "*" else int(found[3])
    announced = length(headers)
    if start > last or (total is not None and last >= total) or announced not in (None, last + 1 - start):
        raise InvalidResponse(f"its Content-Range is {quoted(text)} and its Content-Length {announced}")
    return ByteRange(start, last + 1, total)


def whole(headers: Message) -> int | None:
    """The size of the file, from a response with status 416. None if it is not given."""
    found = _UNSATISFIED.fullmatch((headers["Content-Range"] or "").strip())
    return int(found[1]) if found else None


def validator(headers: Message) -> str | None:
    """The value for If-Range that proves that a file has not changed: a strong ETag, or a Last-Modified old enough that
    no two changes can share it (RFC 9110, 8.8.2.2). None if the server sends neither."""
    tag = (headers["ETag"] or "").strip()
    if re.fullmatch(r'"[\x21\x23-\x7e]*"', tag):
        return tag
    text = (headers["Last-Modified"] or "").strip()
    changed, now = _seconds_since_1970(text), _seconds_since_1970(headers["Date"])
    if changed is None or (now is not None and now - changed < 1) or not re.fullmatch("[ -~]{1,100}", text):
        return None
    return text


def wait_sec(text: str | None) -> float | None:
    """Retry-After in seconds, at most one day. The header is a number or a date (RFC 9110). None if it is neither."""
    if text is None:
        return None
    if re.fullmatch("[0-9]+", text := text.strip()):
        return min(_LONGEST_WAIT_SEC, float(text[:20]))
    date = _seconds_since_1970(text)
    return None if date is None else min(_LONGEST_WAIT_SEC, max(0.0, date - time.time()))


def quoted(text: str) -> str:
    """A header's value for a message, shortened."""
    return ascii(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


def _seconds_since_1970(text: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, OverflowError, OSError, IndexError):
        return None
