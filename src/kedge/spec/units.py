"""Durations as users write them, and guesses of the number that a user meant by a value with a unit, a fraction or
quotes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kedge.late_patterns import late_pattern

if TYPE_CHECKING:
    from kedge.spec.model import Path  # which loads what the table of settings does not need

_AMOUNT = late_pattern(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*")
_CLOCK = late_pattern(r"\s*([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])\s*")
_BYTES = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPELLINGS = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m",
              "minutes": "m", "hour": "h", "hours": "h", "hr": "h", "day": "d", "days": "d"}  # fmt: skip
_WORDS = late_pattern(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([A-Za-z]+)[\s,]*")
_PARTS = late_pattern(r"([0-9.]+)([dhms]?)")
# The same text is the pattern of `duration` in job.schema.json.
DURATION = (
    r"^(?=[0-9])(?:[0-9]{1,12}(?:\.[0-9]{1,9})?d)?(?:[0-9]{1,12}(?:\.[0-9]{1,9})?h)?"
    r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?m)?(?:[0-9]{1,12}(?:\.[0-9]{1,9})?s?)?$"
)
NOT_A_DURATION = "is not a duration; write seconds, or numbers with d, h, m or s, such as 90s, 30m, 1h30m or 2d"
_DURATION = late_pattern(DURATION)


def seconds(duration: str | float) -> float:
    """The seconds of a duration: a number of seconds, or a text such as `90`, `90s`, `30m`, `1h30m`, `1.5h` or `2d`.

    The units are d (24 hours), h, m and s, each at most once and in this order; a number without a unit counts seconds.
    ValueError explains what is wrong with any other text.
    """
    if not isinstance(duration, str):
        return float(duration)
    if not _DURATION.fullmatch(duration):
        guess = duration_meant(duration)
        raise ValueError(f"{duration!r:.60} {NOT_A_DURATION}" + (f"; did you mean {guess!r}?" if guess else ""))
    return sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(duration))


def duration_meant(text: str) -> str | None:
    """The duration that a text such as `30 minutes`, `2H` or `1:30:00` probably stands for; None without a guess."""
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, rest = (int(part) for part in clock.groups())
        return "".join(f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if n) or None
    words = _WORDS.findall(text) if re.fullmatch(rf"(?:{_WORDS.pattern})+", text.strip()) else []
    units = [_SPELLINGS.get(unit.lower(), unit.lower()) for _, unit in words]
    guess = "".join(number + unit for (number, _), unit in zip(words, units, strict=True))
    return guess if guess and _DURATION.fullmatch(guess) and guess != text else None


def number_meant(path: Path, value: object, whole: bool) -> str:
    """The end of a message about a value that must be a number: its unit, and what to write."""
    key = str(path[-1]) if path else ""
    if key.endswith("MB"):
        return _end("it is a number of MiB", _memory(value))
    if key == "cpu":
        return _end("it counts cores", _scaled(value, {"": 1.0, "m": 0.001}, whole))
    amount = _scaled(value, {"": 1.0}, whole)
    if amount is None:
        return ""
    return f"; write {amount}" + (" without quotes" if amount == value else "")


def _end(unit: str, amount: str | None) -> str:
    return f"; {unit}" + (f": write {amount}" if amount else "")


def _memory(value: object) -> str | None:
    match = _AMOUNT.fullmatch(str(value))
    unit = re.sub(r"(?<=[kmgt])(ib?|b)$|(?<=b)ytes?$", "", match[2].lower()) if match else ""
    if not match or unit not in _BYTES:
        return None
    return str(math.ceil(float(match[1]) * _BYTES[unit] / (1 << 20)))


def _scaled(value: object, units: Mapping[str, float], whole: bool) -> str | None:
    """The number in the required unit, rounded up if it must be whole; None if it cannot be read."""
    match = _AMOUNT.fullmatch(str(value)) if isinstance(value, str | float) else None
    if not match:
        return None
    unit = match[2].lower()
    scale = units.get(_SPELLINGS.get(unit, unit))
    if scale is None:
        return None
    amount = float(match[1]) * scale
    return str(math.ceil(amount)) if whole else f"{amount:g}"
