"""What the job's log says about the end of a task attempt."""

from __future__ import annotations

import json
from typing import Any

from kedge.engines.controller.judge import Judge
from kedge.engines.controller.states import TaskState

_LARGEST = 1 << 18  # bytes of a report in an event: readers skip long lines, and a task can write any report


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
    if judging.report(task, attempt) == report:
        return facts
    whole = report._replace(evidence=None, hooks=None)._asdict()  # no decision needs these
    return facts | {"report": whole} if len(json.dumps(whole)) <= _LARGEST else facts
