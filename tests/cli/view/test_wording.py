"""The messages for events."""

from __future__ import annotations

import pytest

from kedge.cli.view.wording import event_text
from kedge.contract import STOPPED_BY_COMPLETION, STOPPED_BY_USER
from kedge.runs.job_events import JobEvent


@pytest.mark.parametrize(
    ("code", "shown"),
    [(255, True), (-1200, True), (STOPPED_BY_USER, False), (STOPPED_BY_COMPLETION, False)],
)
def test_a_failed_task_is_shown_unless_it_was_stopped(code: int, shown: bool) -> None:
    event = {"event": JobEvent.TASK_COMPLETED, "role": "w", "index": 0, "succeeded": False, "code": code}
    text = event_text(event | {"reason": "command-killed", "message": "the kernel killed it"})
    assert text == ("w:0 failed: the kernel killed it" if shown else None)
