"""Reads reports of task attempts, which lie in folders that the tasks themselves can write to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.contract import Report
from kedge.runs.events import is_time
from kedge.untrusted_values import fits, named


def report(data: Mapping[str, Any]) -> Report:
    """A report from the result of `untrusted.parse`; extra keys are ignored. ValueError if a key is missing or has the
    wrong type."""
    made = named(Report, data)
    if not fits(made, Report):
        raise ValueError("a key has the wrong type")
    if not all(map(is_time, (made.started, made.ended))):
        raise ValueError("a time is malformed or has no zone")
    return made
