"""The terminal that `ssh` was started in."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

_STDIN = 0


def wanted(asked: int, request: object, command: str | None) -> bool:
    """Whether the remote command gets a terminal. `asked` counts -t, and is negative after -T; `request` is the option
    RequestTTY."""
    if request in ("force", True, False):
        asked = {"force": 2, True: 1, False: -1}[request] if asked == 0 else asked
    if asked < 0:
        return False
    return asked > 1 or (os.isatty(_STDIN) and (asked == 1 or command is None))


def size() -> tuple[int, int, int, int]:
    """Columns, rows, and both in pixels; 80 by 24 without a terminal."""
    for fd in (0, 1, 2):
        try:
            rows, columns, width, height = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
        except OSError:
            continue
        return columns or 80, rows or 24, width, height
    return 80, 24, 0, 0


@contextmanager
def raw() -> Iterator[None]:
    """Pass every key on unchanged, if stdin is a terminal."""
    if not os.isatty(_STDIN):
        yield
        return
    before = termios.tcgetattr(_STDIN)
    try:
        tty.setraw(_STDIN)
        yield
    finally:
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)
