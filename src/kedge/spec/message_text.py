"""Formats paths, values and source lines for messages: short, on one line, without control characters."""

from __future__ import annotations

from kedge.late_patterns import late_pattern

_PLAIN_KEY = late_pattern(r"[\w.<>/~+-]+")
_LONGEST_VALUE = 60
_LONGEST_LINE = 200
MAX_PROBLEMS = 200  # of one kind; further ones are rarely worth the wait


def show_path(path: tuple[str | int, ...]) -> str:
    """The path as messages show it: `taskRoles.worker.commands[0]`."""
    return "".join(_step(step) for step in path).removeprefix(".")


def quote(value: str) -> str:
    """The text in quotes, control characters escaped, cut to 60 characters."""
    return repr(value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…")


def bare(value: str) -> str:
    """The text without quotes, control characters escaped, cut to 200 characters."""
    return printable(value if len(value) <= _LONGEST_LINE else f"{value[:_LONGEST_LINE]}…")


def printable(value: str) -> str:
    """The text on one line, with unprintable characters escaped."""
    return value if value.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in value)


def excerpt(text: str, offset: int) -> str:
    """The line of `text` around `offset`; empty if it is too long to be useful."""
    first = max(0, offset - _LONGEST_LINE)
    before = text[first:offset].replace("\r", "\n").rpartition("\n")[2]
    after = text[offset : offset + _LONGEST_LINE].replace("\r", "\n").partition("\n")[0]
    line = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in before + after)
    return line if len(line) < _LONGEST_LINE else ""


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) and len(step) <= _LONGEST_VALUE else f".{quote(step)}"
