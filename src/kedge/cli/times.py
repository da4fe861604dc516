"""Times as users write and read them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from datetime import time as time_of_day

import click

_UNKNOWN = "-".ljust(len("2026-02-01T02:54:48.123+00:00"))
_NS = 1_000_000_000


class LineTimes:
    """Shows the times of lines: `2026-02-01T02:54:48.123+00:00`, in the user's time zone."""

    def __init__(self) -> None:
        self._second = -1
        self._text, self._zone = "", ""

    def shown(self, ns: int | None) -> str:
        """A time in nanoseconds since 1970; `-` if it is unknown."""
        if ns is None:
            return _UNKNOWN
        second, rest = divmod(ns, _NS)
        if second != self._second:
            local = time.localtime(second)
            minutes = abs(local.tm_gmtoff) // 60
            self._second, self._text = second, time.strftime("%Y-%m-%dT%H:%M:%S", local)
            self._zone = f"{'-' if local.tm_gmtoff < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
        return f"{self._text}.{rest // 1_000_000:03}{self._zone}"


def point_in_time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The callback of an option: `10m` (ago), `14:30` (the last time that it was), `2026-02-01 14:30`, or with a zone,
    in nanoseconds since 1970."""
    try:
        return None if value is None else _nanoseconds(value.strip())
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{value!r} is not a time; write a duration such as 90s, 10m or 2h (ago), a time of day such as 14:30, or "
            "a date and time such as 2026-02-01T14:30 (local time) or 2026-02-01T14:30Z"
        ) from None


def _nanoseconds(text: str) -> int:
    now = datetime.now()
    if ":" not in text and "-" not in text:
        from kedge.spec.units import seconds  # slow to load, and seldom needed

        return time.time_ns() - int(seconds(text) * _NS)
    if "-" in text:
        moment = datetime.fromisoformat(text)
    else:
        moment = datetime.combine(now, time_of_day.fromisoformat(text))
        moment = moment - timedelta(days=1) if moment.tzinfo is None and moment > now else moment
    return int(moment.timestamp()) * _NS + moment.microsecond * 1000
