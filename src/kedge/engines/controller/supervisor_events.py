"""What supervisors say while they run, as far as a controller wants to know. Tasks can write to the same pipe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kedge import untrusted
from kedge.contract import HOOK_RETRYING, RUNNING
from kedge.engines.base import HookRetrying, Started, Task

LONGEST_LINE = 4096  # bytes; a supervisor's fit into one write to a pipe
_AT_ONCE = 1 << 20

NOT_HEARD = (AttributeError, KeyError, TypeError, ValueError)  # of a line that no supervisor has written


def read(fd: int) -> bytes:
    """What waits in a pipe that never blocks, at most 1 MiB: a writer without end keeps nobody from working."""
    found = b""
    try:
        while len(found) < _AT_ONCE and (data := os.read(fd, 1 << 16)):
            found += data
    except BlockingIOError:
        pass
    return found


def lines(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole lines of what was read, and the rest, which is to be completed. What is too long for one is dropped."""
    *whole, rest = data.split(b"\n")
    return whole, rest if len(rest) <= LONGEST_LINE else b""


def of_line(line: bytes) -> Started | HookRetrying | None:
    """What a line means to the controller, if anything."""
    try:
        return update(untrusted.parse(line))
    except NOT_HEARD:
        return None


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
