"""The few lines of a log that a termination message shows: those around a match, or the last ones."""

from __future__ import annotations

WINDOW = 4048  # bytes that are used on each side of a match, or at the end
BEFORE = 3  # lines before a match; more if few lines follow it


def tail(log: bytes, most: int) -> str:
    """The last lines. The text after the last newline counts as a line, even if it is empty."""
    return _joined(_lines(log[-WINDOW:])[-most:])


def around(log: bytes, start: int, end: int, most: int) -> str:
    """The lines of a match from `start` to `end`, with some before and after; for a long match, its last lines."""
    if end - start > WINDOW:  # keep the beginning of one long line, or the end of many lines
        start, end = (start, start + WINDOW) if log.find(b"\n", start, end) < 0 else (end - WINDOW, end)
    before = _lines(log[max(0, start - WINDOW) : start])
    matched = _lines(log[start:end])
    after = _lines(log[end : end + WINDOW])
    matched[0] = before.pop() + matched[0]
    matched[-1] += after.pop(0)
    room = most - len(matched)
    if room <= 0:
        return _joined(matched[-most:])
    preceding = before[-max(BEFORE, room - len(after)) :][-room:]
    return _joined([*preceding, *matched, *after[: room - len(preceding)]])


def text(data: bytes) -> str:
    """Decode bytes of a log. Invalid UTF-8 becomes U+FFFD; a character that was cut off at the beginning is dropped."""
    whole = data.lstrip(bytes(range(0x80, 0xC0))) if len(data) >= WINDOW else data
    return whole.decode("utf-8", "replace").replace("\r\n", "\n")


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).replace("\r\n", "\n")  # a match may have ended between \r and \n


def _lines(data: bytes) -> list[str]:
    return text(data).split("\n")
