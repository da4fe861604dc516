"""Standard streams that are missing, full, not read any more, or without colours."""

from __future__ import annotations

import os
import sys
from typing import Any

import click


def styled(text: str, **style: Any) -> str:
    """The text in a style of click's, unless the user wants none (https://no-color.org) or the terminal knows none."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else click.style(text, **style)


def open_missing() -> None:
    """Started without stdin, stdout or stderr (`>&-`): nothing else may get their descriptors, and writing is vain."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free is this one
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115  open until the end, as streams are
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115


def flush() -> OSError | None:
    """Send out all that was printed. Returns why it could not be; a reader that has gone (head) is no reason."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter must not flush once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if isinstance(error, BrokenPipeError) else error
    return None
