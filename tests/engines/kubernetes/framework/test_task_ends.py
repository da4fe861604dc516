"""What is said of a task's end, from what FrameworkController keeps of its pod and from its log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kedge.diagnose.model import Diagnosis
from kedge.engines.kubernetes.framework import task_ends
from kedge.engines.kubernetes.framework.event_fold import TaskEnding
from kedge.engines.kubernetes.framework.progress import FrameworkTask
from kedge.engines.kubernetes.framework.task_ends import RuntimeMessage
from kedge.states import State

MESSAGE = "[PAI_RUNTIME_ERROR_START]\nexitCode: 255\noriginUserExitCode: 3\nerrorLogs:\n  user: |\n    \
ModuleNotFoundError: No module named 'torch'\n[PAI_RUNTIME_ERROR_END]"
MATCHED = json.dumps({"containers": [{"name": "app", "message": MESSAGE, "code": 255}]})
STATUS = json.dumps(
    {"status": {"containerStatuses": [{"name": "app", "state": {"terminated": {"message": MESSAGE, "exitCode": 255}}}]}}
)


def ended(code: int, text: str = "", state: State = State.FAILED, **more: Any) -> TaskEnding:
    times = {"started": "2026-01-01T00:00:00Z", "completed": "2026-01-01T00:01:00Z", **more}
    return TaskEnding("worker", FrameworkTask("worker", 1, state, state, 2, code, text, **times), 0)


def cause(end: TaskEnding, log: bytes = b"") -> str:
    made = task_ends.report(end, log)
    assert made.diagnosis
    return Diagnosis.from_json(made.diagnosis).cause


@pytest.mark.parametrize(
    "text", [f"Pod failed: PodPattern matched: {MATCHED}", f"Pod failed: PodPattern unmatched: {STATUS}", MESSAGE]
)
def test_the_message_of_the_runtime_is_found(text: str) -> None:
    found = task_ends.runtime_message(text)
    assert (found.user_code, found.user_log) == (3, "ModuleNotFoundError: No module named 'torch'\n")


@pytest.mark.parametrize(
    "text", ["", "matched: {", "matched: []", "[PAI_RUNTIME_ERROR_START]\n- {\n[PAI_RUNTIME_ERROR_END]"]
)
def test_anything_else_is_no_message(text: str) -> None:
    assert task_ends.runtime_message(text) == RuntimeMessage()


def test_the_command_that_failed() -> None:
    made = task_ends.report(ended(255, f"Pod failed: PodPattern matched: {MATCHED}"), b"")
    assert (made.task, made.exit_code, made.user_exit_code, made.task_attempt) == ("worker:1", 255, 3, 2)
    assert (made.reason, made.message) == ("command-failed", "the command failed with exit code 3")
    assert made.duration_sec == 60
    assert made.ended.startswith("2026-01-01T00:01:00")


def test_a_command_that_was_short_has_run_all_the_same() -> None:
    made = task_ends.report(ended(255, f"Pod failed: PodPattern matched: {MATCHED}", started=""), b"")
    assert (made.reason, made.user_exit_code) == ("command-failed", 3)
    init = task_ends.report(ended(137, "Pod failed", started=""), b"")
    assert (init.reason, init.user_exit_code) == ("cannot-start", None)


def test_the_log_that_is_here_counts_more_than_its_excerpt() -> None:
    end = ended(255, f"Pod failed: PodPattern matched: {MATCHED}")
    assert cause(end) == "missing_module"
    assert cause(end, b"RuntimeError: CUDA error: out of memory\n") == "gpu_oom"


@pytest.mark.parametrize(
    ("code", "named"),
    [(-1000, "evicted"), (-1001, "node_failure"), (-101, "removed_outside"), (-1200, "host_oom_kill"),
     (251, "scheduler_resource_unavailable"), (253, "port_in_use")],
)  # fmt: skip
def test_codes_of_the_cluster_name_their_cause(code: int, named: str) -> None:
    assert cause(ended(code, "why", started="")) == named


def test_a_task_that_was_stopped_or_succeeded_has_no_diagnosis() -> None:
    stopped = task_ends.report(ended(-220, state=State.STOPPED), b"")
    assert (stopped.diagnosis, stopped.stopped_by) == (None, "the end of the job")
    done = task_ends.report(ended(0, state=State.SUCCEEDED), b"")
    assert (done.diagnosis, done.reason, done.user_exit_code) == (None, "succeeded", 0)
