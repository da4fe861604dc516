"""What an exit code alone says, in words."""

from __future__ import annotations

import signal

_KNOWN = {
    0: "success",
    2: "many programs exit with 2 on wrong arguments, shells on a misused builtin",
    124: "`timeout` ended the command at its limit",
    125: "`timeout`, `docker run` or the like itself failed",
    126: "the command was found but could not be executed",
    127: "the command was not found",
    128: "an invalid argument to `exit`, or a fatal error of git",
    255: "an exit code out of range such as -1, or a failure of ssh",
}


def meaning(code: int | None) -> str:
    """What the code (128+n or -n for signal n) says; empty if it is not known."""
    if code is None:
        return ""
    if code in _KNOWN:
        return _KNOWN[code]
    try:
        return f"death by signal {_signal(code)}"
    except ValueError:
        return ""  # a code of the program's own


def _signal(code: int) -> str:
    number = -code if code < 0 else code - 128
    return f"{number} ({signal.Signals(number).name})"
