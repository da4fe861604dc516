"""Times as Slurm writes them."""

from __future__ import annotations

import math
import re

_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


def text(seconds: float) -> str:
    """A time in whole minutes, rounded up: `1-02:30:00`."""
    minutes = max(1, math.ceil(seconds / 60))
    days, rest = divmod(minutes, 24 * 60)
    return f"{f'{days}-' if days else ''}{rest // 60:02}:{rest % 60:02}:00"


def seconds(text: str) -> float | None:
    """The seconds of a time such as `1-02:00:00`, `30:00` or `5`, which counts minutes; None for `infinite`,
    `UNLIMITED` and the like."""
    if not (found := _TIME.fullmatch(text)):
        return None
    days, *clock = (int(part) if part else None for part in found.groups())
    parts = [part for part in clock if part is not None]
    if days is not None:  # days-hours:minutes:seconds, from the left
        hours, minutes, rest = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, rest = parts
    else:
        hours, minutes, rest = 0, parts[0], parts[1] if len(parts) == 2 else 0
    return float((days or 0) * 86400 + hours * 3600 + minutes * 60 + rest)
