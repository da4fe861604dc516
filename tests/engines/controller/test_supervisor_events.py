"""Events of supervisors, which tasks may write, too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kedge.contract import HELD, HOOK_RETRYING, SERVICE_ENDED
from kedge.engines.base import HookRetrying, ServiceEnded, Task, TaskHeld
from kedge.engines.controller import supervisor_events

W0 = Task("w", 0)
HOLD = {"event": HELD, "task": "w:0", "code": 1, "message": "m", "hold_sec": 60}
RETRY = {
    "event": HOOK_RETRYING,
    "task": "w:0",
    "step": "s",
    "message": "m",
    "next_try": 2,
    "tries": 3,
    "delay_sec": 9,
}
SERVICE = {"event": SERVICE_ENDED, "task": "w:0", "name": "n", "code": 3, "task_over": False}


def of(event: dict[str, Any]) -> object:
    return supervisor_events.of_line(json.dumps(event).encode())


def test_what_supervisors_say() -> None:
    assert of(HOLD) == TaskHeld(W0, 60.0, 1, "m")
    assert of(HOLD | {"code": None}) == TaskHeld(W0, 60.0, None, "m")
    assert of(RETRY) == HookRetrying(W0, "s", "m", 2, 3, 9.0)
    assert of(SERVICE) == ServiceEnded(W0, "n", 3, False)
    assert of(HOLD | {"hold_sec": 1e300}) == TaskHeld(W0, 366 * 86_400.0, 1, "m")


@pytest.mark.parametrize("value", [-1e300, -1, "nan", "inf", "60", True, None, [], {}])
def test_a_time_that_is_none_ends_nothing_but_the_event(value: object) -> None:
    assert of(HOLD | {"hold_sec": value}) is None
    assert of(RETRY | {"delay_sec": value}) is None


@pytest.mark.parametrize("value", ["9" * 4000, 1e300, 0.5, True, []])
def test_a_number_that_no_reader_of_events_takes_is_none(value: object) -> None:
    assert of(HOLD | {"code": value}) is None
    assert of(RETRY | {"next_try": value}) is None
    assert of(SERVICE | {"code": value}) is None
