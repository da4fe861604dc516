"""What supervisors say while they run, as far as a controller wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.contract import HOOK_RETRYING, RUNNING
from kedge.engines.base import HookRetrying, Started, Task


def task_of(event: Mapping[str, Any]) -> Task:
    """The task whose supervisor said it."""
    role, _, index = event["task"].partition(":")
    return Task(role, int(index))


def update(event: Mapping[str, Any]) -> Started | HookRetrying | None:
    """What an event of a supervisor means to the controller, if anything. KeyError, TypeError, ValueError and
    AttributeError if it is no such event."""
    if event["event"] == RUNNING:
        return Started(task_of(event))
    if event["event"] == HOOK_RETRYING:
        numbers = int(event["next_try"]), int(event["tries"]), float(event["delay_sec"])
        return HookRetrying(task_of(event), str(event["step"]), str(event["message"]), *numbers)
    return None
