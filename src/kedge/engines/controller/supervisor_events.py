"""Reads the events that supervisors send while they run. Tasks can write to the same pipe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kedge import untrusted
from kedge.contract import HELD, HOOK_RETRYING, RUNNING, SERVICE_ENDED, SERVICE_STARTED, STOP_ANNOUNCED, STOPPING
from kedge.engines.base import (
    HookRetrying,
    LimitReached,
    ServiceEnded,
    ServiceStarted,
    Started,
    StopAnnounced,
    Task,
    TaskHeld,
)

LONGEST_LINE = 4096  # bytes; supervisors send each line in one atomic write to the pipe
_LONGEST_SEC = 366 * 86_400.0  # longer times are not from a supervisor
_AT_ONCE = 1 << 20

SupervisorUpdate = Started | TaskHeld | HookRetrying | LimitReached | StopAnnounced | ServiceStarted | ServiceEnded

MALFORMED = (AttributeError, KeyError, TypeError, ValueError)  # raised for lines that are not from a supervisor


def read(fd: int) -> bytes:
    """The available data of a non-blocking pipe, at most 1 MiB, so that an endless writer cannot occupy the caller."""
    found = b""
    try:
        while len(found) < _AT_ONCE and (data := os.read(fd, 1 << 16)):
            found += data
    except BlockingIOError:
        pass
    return found


def lines(data: bytes) -> tuple[list[bytes], bytes]:
    """The complete lines in the data, and the rest, an incomplete line. A rest longer than a line is dropped."""
    *whole, rest = data.split(b"\n")
    return whole, rest if len(rest) <= LONGEST_LINE else b""


def of_line(line: bytes) -> SupervisorUpdate | None:
    """The update in a line; None if it has none."""
    try:
        return update(untrusted.parse(line))
    except MALFORMED:
        return None


def task_of(event: Mapping[str, Any]) -> Task:
    """The task whose supervisor sent the event."""
    role, _, index = event["task"].partition(":")
    return Task(role, int(index))


def update(event: Mapping[str, Any]) -> SupervisorUpdate | None:
    """The update in an event of a supervisor; None if it has none. KeyError, TypeError, ValueError or AttributeError if
    it is not an event of a supervisor."""
    if event["event"] == RUNNING:
        return Started(task_of(event))
    if event["event"] == HOOK_RETRYING:
        numbers = _number(event["next_try"]), _number(event["tries"]), _seconds(event["delay_sec"])
        return HookRetrying(task_of(event), str(event["step"]), str(event["message"]), *numbers)
    if event["event"] == STOPPING and event["limit"]:
        return LimitReached(task_of(event), str(event["limit"]))
    if event["event"] == STOP_ANNOUNCED:
        return StopAnnounced(task_of(event), str(event["by"]), str(event["text"]))
    if event["event"] == HELD:
        code, seconds = event["code"], _seconds(event["hold_sec"])
        return TaskHeld(task_of(event), seconds, None if code is None else _number(code), str(event["message"]))
    if event["event"] == SERVICE_STARTED:
        address = event["address"]
        return ServiceStarted(task_of(event), str(event["name"]), None if address is None else str(address))
    if event["event"] == SERVICE_ENDED:
        return ServiceEnded(task_of(event), str(event["name"]), _number(event["code"]), bool(event["task_over"]))
    return None


def _number(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("not a number")
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not value >= 0:
        raise ValueError("not a time")
    return min(float(value), _LONGEST_SEC)
