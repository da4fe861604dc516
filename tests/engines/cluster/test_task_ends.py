"""The reports of tasks that left none, by the cluster's word: what is told apart, and what is tried again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kedge.contract import PERHAPS_MEMORY, RUNTIME_BROKE, Report
from kedge.diagnose.model import Diagnosis
from kedge.diagnose.rules import packaged
from kedge.engines.base import Task
from kedge.engines.cluster import task_ends
from kedge.engines.cluster.base import Gone, GoneKind
from kedge.engines.controller.judge import Judge, judge
from kedge.engines.controller.reports import Launch
from kedge.engines.controller.states import TaskState
from kedge.policy.retry import Policy
from kedge.policy.retry_decision import RetriesSoFar, decide
from kedge.runs.folder import Run
from kedge.states import State

W = Task("w", 0)


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(W, str(tmp_path), 0, 0, 0)


def gone(
    launch: Launch, kind: GoneKind, code: int | None = None, *, stopping: bool = False, killed: bool = False
) -> Report:
    said = Gone(W, 0, kind, "so says the cluster", code)
    return task_ends.of_gone(launch, said, "n2", stopping=stopping, killed=killed)


def is_retried(launch: Launch, report: Report, asked_for: int = 0) -> bool:
    """Whether the whole job is tried again, if the user asked for so many retries."""
    state = replace(TaskState(W), state=State.FAILED, report=report)
    judged = judge([state])
    failure = Judge(Run(Path(launch.folder))).failure(judged, report.exit_code, 0, state, state.history)
    return decide(Policy(True, asked_for), RetriesSoFar(), failure, 10, job=True).retry


@pytest.mark.parametrize(
    ("kind", "code", "cause", "retried"),
    [
        (GoneKind.NODE_LOST, -1001, "node_failure", (True, True)),
        (GoneKind.PREEMPTED, -1003, "preempted", (True, True)),
        (GoneKind.OUT_OF_MEMORY, -1200, "host_oom_kill", (False, False)),
        (GoneKind.OUT_OF_TIME, -1004, "time_limit", (False, False)),
        (GoneKind.CANCELLED, -300, "job_cancelled", (False, True)),
        (GoneKind.NOT_STARTED, -310, "scheduler_resource_unavailable", (False, True)),
    ],
)
def test_each_end_has_a_cause_and_the_right_retries(
    launch: Launch, kind: GoneKind, code: int, cause: str, retried: tuple[bool, bool]
) -> None:
    report = gone(launch, kind)
    assert report.exit_code == code
    assert "so says the cluster" in report.message
    assert "node n2" in report.message
    assert report.diagnosis
    found = Diagnosis.from_json(report.diagnosis)
    assert (found.cause, found.confidence) == (cause, "sure")
    assert "so says the cluster" in found.meaning
    assert found.remedy
    assert (is_retried(launch, report), is_retried(launch, report, 1)) == retried


def test_a_barrier_that_was_not_passed_is_tried_again_if_the_user_asked_for_that(launch: Launch) -> None:
    """Each try may take ten minutes, and what keeps tasks apart may not go away."""
    report = task_ends.of_barrier(launch, "w:1 has not reported")
    assert (report.exit_code, report.message) == (-310, "w:1 has not reported")
    assert (is_retried(launch, report), is_retried(launch, report, 1)) == (False, True)


@pytest.mark.parametrize(
    ("code", "exit_code", "reason", "message"),
    [
        (-9, 137, PERHAPS_MEMORY, "on node n2 was killed by SIGKILL, perhaps because the node ran out of memory"),
        (-11, 139, "runtime-error", "was killed by SIGSEGV: so says the cluster"),
        (3, RUNTIME_BROKE, "runtime-error", "ended with exit code 3 and left no report: so says"),
        (None, RUNTIME_BROKE, "runtime-error", "n2 ended and left no report: so says"),
    ],
)
def test_an_agent_that_only_ended(launch: Launch, code: int | None, exit_code: int, reason: str, message: str) -> None:
    report = gone(launch, GoneKind.ENDED, code)
    assert (report.exit_code, report.reason) == (exit_code, reason)
    assert message in report.message


def test_what_this_controller_asked_for_is_no_failure(launch: Launch) -> None:
    for kind in (GoneKind.ENDED, GoneKind.CANCELLED):
        assert gone(launch, kind, killed=True).stopped_by == "KILL"
    assert gone(launch, GoneKind.NODE_LOST, killed=True).exit_code == -1001
    assert gone(launch, GoneKind.NODE_LOST, stopping=True).stopped_by == "TERM"


def test_a_thousand_lost_tasks_cost_one_reading_of_the_rules(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    gone(launch, GoneKind.NODE_LOST)
    monkeypatch.delattr(packaged, "content")
    assert gone(launch, GoneKind.NODE_LOST).diagnosis == gone(launch, GoneKind.NODE_LOST).diagnosis


def test_so_do_those_of_which_only_the_code_is_known(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    report = gone(launch, GoneKind.ENDED, 139)
    first = judge([replace(TaskState(W), state=State.FAILED, report=report)])
    monkeypatch.delattr(packaged, "content")
    assert judge([replace(TaskState(W), state=State.FAILED, report=report)]) == first
