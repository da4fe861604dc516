"""The report of a run whose controller did not write one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kedge.runs import report
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of one task that has failed."""
    task: dict[str, Any] = {"role": "worker", "index": 0, "task_attempt": 0}
    with EventLog(tmp_path / "events.jsonl") as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={"worker": 1})
        log.append(JobEvent.ATTEMPT_STARTED, attempt=0)
        log.append(JobEvent.TASK_LAUNCHED, **task)
        log.append(
            JobEvent.TASK_COMPLETED, succeeded=False, code=255, user_exit_code=3, reason="command-failed", **task
        )
        log.append(JobEvent.JOB_COMPLETED, state=State.FAILED, code=255, text="worker:0 failed")
    return Run(tmp_path)


def test_a_missing_report_is_written_later(run: Run) -> None:
    report.complete(run)
    written = json.loads((run.path / "report.json").read_text())
    assert (written["state"], written["text"], written["root"]) == (State.FAILED, "worker:0 failed", None)
    assert [task["state"] for task in written["tasks"]] == [State.FAILED]
    assert "could not determine why" in (run.path / "report.md").read_text()


def test_the_report_of_the_controller_is_kept(run: Run) -> None:
    (run.path / "report.json").write_text("the controller's")
    report.complete(run)
    assert (run.path / "report.json").read_text() == "the controller's"


@pytest.mark.parametrize(
    "judged", [{}, 7, {"task": "worker:0", "diagnosis": {"cause": 3}, "others": [], "suspects": []}]
)
def test_a_verdict_that_is_not_one_is_left_out(tmp_path: Path, judged: Any) -> None:
    with EventLog(tmp_path / "events.jsonl") as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={"worker": 1})
        log.append(JobEvent.JOB_COMPLETED, state=State.FAILED, code=255, text="it failed", judged=judged, lines={})
    assert report.read(Run(tmp_path)) is None
    report.complete(Run(tmp_path))
    assert json.loads((tmp_path / "report.json").read_text())["root"] is None


def test_a_report_names_the_logs_of_the_folder_in_which_it_is_read(tmp_path: Path) -> None:
    run = Run(tmp_path / "train-abc2345")
    run.path.mkdir()
    quote = {"file": "/elsewhere/train-abc2345/attempt-0/worker-0/user-all/current", "line": 3, "text": "out of memory"}
    other = {**quote, "file": "/elsewhere/another.log"}
    root = {"task": "worker:0", "cause": "gpu_oom", "evidence": [quote], "last_words": [other]}
    made = {"id": run.id, "state": "failed", "text": "it failed", "code": 255, "attempts": 1, "root": root}
    (run.path / "report.json").write_text(json.dumps({"version": 1, **made}))
    found = report.read(run)
    assert found
    assert found.root
    assert found.root.evidence[0].file == str(run.path / "attempt-0/worker-0/user-all/current")
    assert found.root.last_words[0].file == "/elsewhere/another.log"
