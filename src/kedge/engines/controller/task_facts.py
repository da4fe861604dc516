"""What the job's log says about the end of a task attempt."""

from __future__ import annotations

from typing import Any

from kedge.engines.controller.judge import Judge
from kedge.engines.controller.states import TaskState


def of_end(task: TaskState, code: int, judging: Judge, attempt: int) -> dict[str, Any]:
    """How the latest attempt of a task has ended. The whole report is there only if the task's folder does not have the
    same: the controller has made or changed it, and a second controller needs it, too."""
    report = task.report
    if report is None:
        return {"code": code}
    facts = {
        "code": code,
        "user_exit_code": report.user_exit_code,
        "reason": report.reason,
        "message": report.message,
        "removed_bytes": report.removed_bytes,
    }
    return facts if judging.report(task, attempt) == report else facts | {"report": report._asdict()}
