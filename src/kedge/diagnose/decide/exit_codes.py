"""What an exit code alone means, as text."""

from __future__ import annotations

from kedge.light.signal import NSIG

_KNOWN = {
    0: "success",
    2: "many programs exit with 2 on wrong arguments, shells on misuse of a builtin",
    124: "`timeout` ended the command at its limit",
    125: "`timeout`, `docker run` or a similar program itself failed",
    126: "the command was found but could not be executed",
    127: "the command was not found",
    128: "an invalid argument to `exit`, or a fatal error of git",
    255: "an exit code out of range, such as -1, or a failure of ssh",
}


def meaning(code: int | None) -> str:
    """What the code (128+n or -n for signal n) means; empty if that is not known."""
    if code is None:
        return ""
    if code in _KNOWN:
        return _KNOWN[code]
    number = -code if code < 0 else code - 128
    return f"death by signal {number} ({name})" if (name := _name(number)) else ""  # else the program's own choice


def _name(number: int) -> str:
    """The name of a signal; empty if there is none with this number."""
    if not 0 < number < NSIG:
        return ""
    from signal import Signals  # loads what takes longer than all the rest here

    try:
        return Signals(number).name
    except ValueError:
        return ""
