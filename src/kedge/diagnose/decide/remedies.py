"""Remedies with their subjects filled in: `Install {subject|the module}.` becomes `Install apex.`"""

from __future__ import annotations

from kedge.diagnose.model import Cause
from kedge.diagnose.regex import over_characters
from kedge.light.types import Sequence

_PLACE = "{subject|"
_LONGEST = 100  # characters; instead of a longer subject the general words are used


def remedy(cause: Cause, quoted: Sequence[str] = (), frame: str = "") -> tuple[str, ...]:
    """The steps to take. The subject is what the first matching pattern of the cause captures in the first quoted line
    that it matches. For a cause without patterns it is the frame. Without a subject, the general words are used."""
    subjects = (_captured(pattern, text) for pattern in cause.subject for text in quoted)
    subject = next(filter(None, subjects), None) if cause.subject else frame
    return tuple(_filled(step, subject) for step in cause.remedy)


def _filled(step: str, subject: str | None) -> str:
    first, *places = step.split(_PLACE)
    parts = (place.partition("}") for place in places)
    return first + "".join((subject or general) + rest for general, _, rest in parts)


def _captured(pattern: str, text: str) -> str | None:
    found = over_characters(pattern).search(text.encode())
    subject = found.group(1).decode(errors="replace").strip() if found else ""
    return subject if 0 < len(subject) <= _LONGEST else None
