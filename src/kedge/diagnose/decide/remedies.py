"""Remedies that name what they speak of: `Install {subject|the module}.` becomes `Install apex.`"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kedge.diagnose.model import Cause
from kedge.diagnose.regex import over_characters

_PLACE = re.compile(r"\{subject\|([^}]*)\}")
_LONGEST = 100  # characters; a longer subject says less than the general words


def remedy(cause: Cause, quoted: Sequence[str] = (), frame: str = "") -> tuple[str, ...]:
    """What to do. The subject is what the first of the cause's patterns captures in the first of the quoted lines that
    it matches; of a cause without patterns it is the frame; where there is neither, general words stand for it."""
    subjects = (_captured(pattern, text) for pattern in cause.subject for text in quoted)
    subject = next(filter(None, subjects), None) if cause.subject else frame
    return tuple(_PLACE.sub(lambda place: subject or place[1], step) for step in cause.remedy)


def _captured(pattern: str, text: str) -> str | None:
    found = over_characters(pattern).search(text.encode())
    subject = found.group(1).decode(errors="replace").strip() if found else ""
    return subject if 0 < len(subject) <= _LONGEST else None
