"""Guesses the number that a user meant by a value with a unit, a fraction or quotes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from kedge.late_patterns import late_pattern
from kedge.spec.model import Path

_AMOUNT = late_pattern(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*")
_BYTES = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPELLINGS = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m",
              "minutes": "m", "hour": "h", "hours": "h", "hr": "h", "day": "d", "days": "d"}  # fmt: skip


def number_meant(path: Path, value: object, whole: bool) -> str:
    """The end of a message about a value that must be a number: its unit, and what to write."""
    key = str(path[-1]) if path else ""
    if key.endswith("MB"):
        return _end("it is a number of MiB", _memory(value))
    if key.endswith("Sec"):
        return _end("it is a number of seconds", _scaled(value, _SECONDS, whole))
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
