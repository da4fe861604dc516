"""What a task prints, made safe for a terminal: colours pass, every other control sequence is shown as text."""

from __future__ import annotations

import re

_RESET = b"\x1b[0m"
# A colour or style (ECMA-48 SGR) is kept; any other control character but the tab, C1 in UTF-8 included, is not.
_CONTROL = re.compile(rb"(\x1b\[[0-9;:]*m)|[\x00-\x08\x0a-\x1f\x7f]|\xc2[\x80-\x9f]")


def terminal_text(line: bytes) -> bytes:
    """The line with control characters in caret notation (`^[[2J`), so that it cannot move the cursor, erase, or set
    titles or the clipboard; what it colours ends with it."""
    shown = _CONTROL.sub(_shown, line)
    return shown + _RESET if b"\x1b" in shown and not shown.endswith(_RESET) else shown


def _shown(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return found[1]
    *lead, last = found[0]
    return b"\\x%02x" % last if lead else b"^%c" % (last ^ 0x40)
