"""Stopping runs that have lost their controller."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kedge.engines.machine import lost_runs, stop_run
from kedge.errors import CannotRun
from kedge.runs import controller_lock, status
from kedge.runs.events import EventLog
from kedge.runs.folder import Run, RunInfo, create
from kedge.runs.job_events import JobEvent
from kedge.states import State


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        ('{"stop": {"graceSec": 7}}', 7.0),
        ('{"stop": {"graceSec": 30}, "roles": [{"stop": {"graceSec": 7}}, {"stop": {"graceSec": 9}}]}', 9.0),
        ('{"stop": {"graceSec": 7}, "roles": [{}, 1]}', 30.0),
        ('{"stop": {"graceSec": 7}, "roles": [{"stop": {"graceSec": 5}}, {"stop": {"graceSec": NaN}}]}', 30.0),
        ('{"stop": {"graceSec": 7}, "roles": [{"name": "of an older version"}]}', 7.0),
        ('{"stop": {"graceSec"', 30.0),
        ('{"stop": null}', 30.0),
        ('{"stop": {"graceSec": Infinity}}', 30.0),
        ('{"stop": {"graceSec": NaN}}', 30.0),
        (None, 30.0),
    ],
)
def test_the_grace_period_is_the_plans_or_the_default(tmp_path: Path, plan: str | None, seconds: float) -> None:
    run = create(tmp_path, "job")
    if plan is not None:
        run.plan_file.write_text(plan)
    assert run.stop_grace_sec() == seconds


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run without a controller and grace period, with short waits."""
    monkeypatch.setattr(lost_runs, "_ENDING_SEC", 0.1)
    monkeypatch.setattr(lost_runs, "_PATIENCE_SEC", 0.1)
    monkeypatch.setattr(stop_run, "_PATIENCE_SEC", 0.1)
    run = create(tmp_path, "job")
    run.save(
        RunInfo(
            id=run.id,
            name="job",
            user="me",
            engine="local",
            created="2026-01-01T00:00:00Z",
            version="1",
            source="job.yaml",
        )
    )
    run.plan_file.write_text('{"stop": {"graceSec": 0}}')
    with EventLog(run.events) as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={"w": 1})
    with closing(controller_lock.hold(run.lock)) as held, subprocess.Popen(["true"]) as ended:
        held.sign(ended.pid)
    return run


class Task:
    """A process that keeps a file locked."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            ["flock", path, "sh", "-c", "echo locked; exec sleep 1000"], stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == b"locked\n"
        self.killed: list[bool] = []

    def end(self, run: Run, kill: bool) -> None:
        self.killed.append(kill)
        subprocess.run(["pkill", "-KILL", "--session", str(self.process.pid)], check=False)
        self.process.wait()


@pytest.fixture
def tasks() -> Iterator[list[Task]]:
    made: list[Task] = []
    yield made
    for task in made:
        subprocess.run(["pkill", "-KILL", "--session", str(task.process.pid)], check=False)
        with task.process:
            pass


def test_a_task_that_has_locked_the_log_of_a_lost_run_is_killed(lost: Run, tasks: list[Task]) -> None:
    tasks.append(task := Task(lost.events))
    stop_run.stop(lost, False, task.end)
    assert task.killed[0]
    assert status.read(lost).state == State.STOPPED


def test_a_log_that_stays_locked_is_an_error(lost: Run, tasks: list[Task]) -> None:
    tasks.append(Task(lost.events))
    with pytest.raises(CannotRun, match="is not stopped: another process has locked"):
        stop_run.stop(lost, False, lambda run, kill: None)
    assert status.read(lost).state == State.LOST


def test_a_task_that_has_taken_the_lock_of_a_lost_run_is_killed_by_stop_kill(lost: Run, tasks: list[Task]) -> None:
    tasks.append(task := Task(lost.lock))
    with pytest.raises(CannotRun, match="kedge stop --kill"):
        stop_run.stop(lost, False, task.end)
    assert task.killed == []
    stop_run.stop(lost, True, task.end)
    assert task.killed[0]
    assert status.read(lost).state == State.STOPPED
    assert json.loads(lost.events.read_text().splitlines()[-1])["event"] == JobEvent.JOB_COMPLETED
