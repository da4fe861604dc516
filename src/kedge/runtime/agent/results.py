"""What a supervisor leaves in the folder of its task attempt. Tasks can write there, so nothing of it is trusted; the
controller checks the values again."""

from __future__ import annotations

from kedge import untrusted
from kedge.contract import EVENTS_FILE, REPORT_FILE
from kedge.light import json
from kedge.light.types import Any

_LARGEST_REPORT = 8 << 20  # bytes, also of its JSON: it must fit into one message
_LARGEST_EVENTS = 4 << 20
_LONGEST_LINE = 4096
_DEEPEST = untrusted.DEEPEST - 8  # levels: those of the message come besides, and the controller takes no more


def report(folder: str) -> dict[str, Any] | None:
    """The report; None if there is none that can be used, or it is too deep for a message, or becomes too large for
    one, since what is not ASCII grows: the controller has the file itself."""
    try:
        found = untrusted.read_json(folder, REPORT_FILE, _LARGEST_REPORT)
    except (OSError, ValueError):
        return None
    return found if _can_be_told(found) and len(json.dumps(found)) <= _LARGEST_REPORT else None


def event_lines(folder: str) -> list[bytes]:
    """The complete lines of events so far."""
    try:
        return untrusted.read(folder, EVENTS_FILE, _LARGEST_EVENTS).split(b"\n")[:-1]
    except OSError:
        return []


def event(line: bytes) -> dict[str, Any] | None:
    """The event in a line; None if it is not from a supervisor."""
    if len(line) > _LONGEST_LINE:
        return None
    try:
        found = untrusted.parse(line)
    except ValueError:
        return None
    return found if _can_be_told(found) else None


def _can_be_told(found: Any) -> bool:
    return isinstance(found, dict) and not untrusted.is_deeper(found, _DEEPEST)
