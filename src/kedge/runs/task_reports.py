"""Reports of task attempts, which supervisors write into folders that their tasks can write to, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.contract import Report
from kedge.runs.events import is_time
from kedge.untrusted import fits


def report(data: Mapping[str, Any]) -> Report:
    """A report from what `untrusted.parse` gives, with all its keys, and maybe others. ValueError if one is missing or
    of a wrong type."""
    try:
        made = Report(**{name: data[name] for name in Report._fields if name in data})
    except TypeError as error:
        raise ValueError(str(error)) from error
    if not fits(made, Report):
        raise ValueError("something in it is of a wrong type")
    if not all(map(is_time, (made.started, made.ended))):
        raise ValueError("a time without its zone")
    return made
