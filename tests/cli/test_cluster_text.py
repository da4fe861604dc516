"""What people see of a job that waits in a cluster, and of tasks there."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kedge.cli.view import cluster_text, summary
from kedge.cli.view.wording import event_text
from kedge.runs import liveness, status
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase, SchedulerAnswer
from kedge.states import State

_STARTED = [
    {"event": "job-submitted", "time": "2026-01-02T03:04:05+00:00", "roles": {"worker": 2}},
    {"event": "attempt-started", "time": "2026-01-02T03:04:06+00:00", "attempt": 0},
    {"event": "task-launched", "time": "2026-01-02T03:04:06+00:00", "role": "worker", "index": 0, "task_attempt": 0},
    {"event": "task-placed", "role": "worker", "index": 0, "node": "n7", "address": "10.0.0.7"},
]
_SILENT = {"event": "task-unreachable", "role": "worker", "index": 0, "text": "not heard of since 03:05:00 (node n7)"}
_HEARD = {"event": "task-reachable", "role": "worker", "index": 0}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.cluster.make()
    return run


def _says(run: Run, state: str, **facts: str) -> None:
    liveness.write_answer(run.cluster, SchedulerAnswer("7", state, checked=time.time(), **facts))


def _news(news: cluster_text.SchedulerNews) -> str | None:
    event = news.changed()
    return cluster_text.scheduler_text(event) if event else None


def test_the_reason_and_the_expected_start_are_shown_once(run: Run) -> None:
    news = cluster_text.SchedulerNews(run)
    assert _news(news) is None
    start = datetime.now(UTC) + timedelta(days=2)
    _says(run, JobPhase.PENDING, reason="Resources", text="it waits for free nodes", start=start.isoformat())
    local = start.astimezone().strftime("on %Y-%m-%d at %H:%M")
    assert _news(news) == f"job 7 is pending: it waits for free nodes; expected to start {local}"
    _says(run, JobPhase.PENDING, reason="Resources", text="it waits for free nodes", start=start.isoformat())
    assert _news(news) is None
    _says(run, JobPhase.PENDING, reason="Priority", text="other jobs come first")
    assert _news(news) == "job 7 is pending: other jobs come first"
    _says(run, JobPhase.UNKNOWN, text="squeue has not answered for 20 s")
    assert _news(news) == "the state of job 7 is unknown: squeue has not answered for 20 s"
    _says(run, JobPhase.RUNNING)
    assert _news(news) == "job 7 has started"


def test_a_job_that_runs_does_not_start_again(run: Run) -> None:
    news = cluster_text.SchedulerNews(run)
    _says(run, JobPhase.RUNNING)
    assert _news(news) is None
    _says(run, JobPhase.RUNNING, reason="ContainerCreating", text="its driver is being replaced: node n sets it up")
    assert _news(news) == "job 7: its driver is being replaced: node n sets it up"
    _says(run, JobPhase.RUNNING)
    assert _news(news) == "job 7 continues"
    _says(run, JobPhase.UNKNOWN, text="it does not answer")
    assert _news(news) == "the state of job 7 is unknown: it does not answer"
    _says(run, JobPhase.RUNNING)
    assert _news(news) == "job 7 continues"


def test_a_controller_that_speaks_for_itself_needs_no_news(run: Run) -> None:
    news = cluster_text.SchedulerNews(run)
    _says(run, JobPhase.PENDING, reason="Priority")
    run.cluster.beat()
    assert news.changed() is None


def test_a_job_that_has_begun_since_the_cluster_was_asked_goes_on(run: Run) -> None:
    news = cluster_text.SchedulerNews(run)
    _says(run, JobPhase.PENDING, reason="Priority", text="other jobs come first")
    assert _news(news) == "job 7 is pending: other jobs come first"
    run.events.write_text("".join(f"{json.dumps(event)}\n" for event in _STARTED))
    _says(run, JobPhase.UNKNOWN, text="it does not answer")
    assert _news(news) == "the state of job 7 is unknown: it does not answer"
    _says(run, JobPhase.RUNNING)
    assert _news(news) == "job 7 continues"


def test_a_job_that_was_submitted_just_now_is_no_news(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    news = cluster_text.SchedulerNews(run)
    _says(run, JobPhase.PENDING, reason="None", text="nobody has looked at it")
    assert news.changed() is None
    later = time.monotonic() + 60
    monkeypatch.setattr(cluster_text.time, "monotonic", lambda: later)
    assert _news(news) == "job 7 is pending: nobody has looked at it"


def test_a_run_of_this_machine_has_no_news(tmp_path: Path) -> None:
    assert cluster_text.SchedulerNews(Run(tmp_path / "local")).changed() is None


def test_tasks_have_nodes_and_may_be_unreachable(capsys: pytest.CaptureFixture[str], run: Run) -> None:
    now = status.fold([*_STARTED, _SILENT])
    assert [(task.node, task.unreachable is not None) for task in now.tasks] == [("n7", True), (None, False)]
    summary.print_summary(run, now)
    shown = capsys.readouterr().out
    assert "NODE" in shown
    assert "unreachable" in shown
    assert "worker:0: not heard of since 03:05:00 (node n7)" in shown
    assert event_text(_SILENT) == "worker:0 is unreachable: not heard of since 03:05:00 (node n7)"
    now = status.fold([*_STARTED, _SILENT, _HEARD])
    assert now.tasks[0].unreachable is None
    assert now.tasks[0].state == State.RUNNING


def test_why_tasks_wait_is_shown(capsys: pytest.CaptureFixture[str], run: Run) -> None:
    begun = {"event": JobEvent.BARRIER_BEGUN, "attempt": 0, "own_places": True}
    launched = [{**_STARTED[2], "index": index} for index in range(2)]
    said = [{"event": JobEvent.TASK_WAITING, "role": "worker", "index": index, "text": "no room"} for index in range(2)]

    def shown(*events: dict[str, Any]) -> str:
        summary.print_summary(run, status.fold([*_STARTED[:2], begun, *launched, *events]))
        return capsys.readouterr().out

    one, two = shown(said[0]), shown(*said)
    assert "worker:0: no room" in one
    assert one.count("no room") == 1, "the verdict says it"
    assert "Pending for" in two
    assert "worker:0: no room (and 1 more)" in two
    assert "worker:1: no room" in two


def test_an_end_ends_the_doubt() -> None:
    end = {"event": JobEvent.TASK_COMPLETED, "role": "worker", "index": 0, "succeeded": False, "code": -1001}
    assert status.fold([*_STARTED, _SILENT, end]).tasks[0].unreachable is None
