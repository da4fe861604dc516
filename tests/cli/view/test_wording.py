"""The messages for events."""

from __future__ import annotations

import pytest

from kedge.cli.view.wording import event_text, exit_text
from kedge.contract import COMMAND_KILLED, RUNTIME_ERROR, STOPPED_BY_COMPLETION, STOPPED_BY_USER
from kedge.runs.job_events import JobEvent
from kedge.runs.status import TaskStatus


@pytest.mark.parametrize(
    ("code", "shown"),
    [(255, True), (-1200, True), (STOPPED_BY_USER, False), (STOPPED_BY_COMPLETION, False)],
)
def test_a_failed_task_is_shown_unless_it_was_stopped(code: int, shown: bool) -> None:
    event = {"event": JobEvent.TASK_COMPLETED, "role": "w", "index": 0, "succeeded": False, "code": code}
    text = event_text(event | {"reason": "command-killed", "message": "the kernel killed it"})
    assert text == ("w:0 failed: the kernel killed it" if shown else None)


@pytest.mark.parametrize(
    ("by", "again"),
    [("Ctrl-C", "; repeat to kill them"), ("root, with scancel", ""), ("scancel, from outside of kedge", "")],
)
def test_who_has_cancelled_the_job_in_slurm_need_not_repeat_it(by: str, again: str) -> None:
    text = event_text({"event": JobEvent.STOP_REQUESTED, "kill": False, "by": by})
    assert text == f"stopping all tasks, as requested by {by}{again}"


@pytest.mark.parametrize(
    ("reason", "code", "shown"),
    [(RUNTIME_ERROR, -1001, "-1001"), (RUNTIME_ERROR, 255, RUNTIME_ERROR), (COMMAND_KILLED, -1003, COMMAND_KILLED)],
)
def test_a_lost_node_is_no_error_of_the_runtime(reason: str, code: int, shown: str) -> None:
    assert exit_text(TaskStatus("w", 0, code=code, reason=reason)) == shown
