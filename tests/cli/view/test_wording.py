"""Events in words."""

from __future__ import annotations

import pytest

from kedge.cli.view.wording import event_words
from kedge.contract import STOPPED_BY_COMPLETION, STOPPED_BY_USER
from kedge.runs import status


@pytest.mark.parametrize(
    ("code", "told"),
    [(255, True), (-1200, True), (STOPPED_BY_USER, False), (STOPPED_BY_COMPLETION, False)],
)
def test_a_task_that_failed_is_told_whatever_its_code(code: int, told: bool) -> None:
    event = {"event": status.TASK_COMPLETED, "role": "w", "index": 0, "succeeded": False, "code": code}
    words = event_words(event | {"reason": "command-killed", "message": "the kernel killed it"})
    assert words == ("w:0 failed: the kernel killed it" if told else None)
