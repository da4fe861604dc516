"""What an exit code alone means, as text."""

from __future__ import annotations

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
    try:
        return f"death by signal {_signal(code)}"
    except ValueError:
        return ""  # a code that the program chose itself


def _signal(code: int) -> str:
    import signal  # only for a signal: it takes a while

    number = -code if code < 0 else code - 128
    return f"{number} ({signal.Signals(number).name})"
