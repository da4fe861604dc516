"""What a second controller makes of events: times by the clock on the wall, and what must be done again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import timestamp
from kedge.diagnose.model import PERMANENT, Diagnosis
from kedge.engines.controller import resume
from kedge.engines.controller.allocation import Allocation
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.progress import Progress, Stage
from kedge.engines.controller.states import History
from kedge.engines.controller.stop_requests import Stops
from kedge.plan.model import Plan
from kedge.runs.events import LONGEST_LINE, EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.backend import failed, succeeded

from .scripted import A, B, Scene, plan
from .test_time_limits import limited

OF_A = {"role": "w", "index": 0, "task_attempt": 0}
OF_B = {**OF_A, "index": 1}
COUNTS = {"retries": {"accountable": 1, "transient": 2, "unseen": 0}, "history": None}
LAUNCHED = [(3600, JobEvent.ATTEMPT_STARTED, {"attempt": 0}), (3000, JobEvent.TASK_LAUNCHED, OF_A)]
SLACK = 10.0  # seconds that a test may take
Events = list[tuple[float, str, dict[str, Any]]]


@pytest.fixture
def read(tmp_path: Path):
    """The progress that events show which were recorded so many seconds ago."""

    def read(ago: Events, made: Plan | None = None, **keys: Any) -> Progress:
        now = time.time()
        with EventLog(tmp_path / "events.jsonl") as log:
            for seconds, event, facts in ago:
                log.append(event, **facts, time=timestamp(int((now - seconds) * 1e9)))
        found = resume.read(made or plan(), Run(tmp_path), **keys)
        assert found is not None
        return found

    return read


def test_a_job_that_has_not_begun_has_no_progress(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert resume.read(plan(), run) is None
    with EventLog(run.events) as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={"w": 2})
    assert resume.read(plan(), run) is None


def test_a_torn_last_line_is_not_decided(read, tmp_path: Path) -> None:
    read(LAUNCHED)
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"time": "2026-01-01T00:00:00Z", "event": "attempt-comp')
    found = resume.read(plan(), Run(tmp_path))
    assert found is not None
    assert (found.stage, found.record.tasks[A].state, found.record.running) == (Stage.BEGINS, State.LAUNCHED, {A: 0})


def test_the_time_limit_of_the_job_began_with_its_first_attempt(read) -> None:
    found = read(LAUNCHED, limited(plan(), job=4000.0))
    assert found.limits.job_left() == pytest.approx(400, abs=SLACK)


def test_the_time_limit_of_a_task_began_with_its_first_start(read) -> None:
    again: Events = [(100, JobEvent.TASK_RETRYING, {**OF_A, "code": 1, "delay_sec": 0.0, **COUNTS})]
    again += [(50, JobEvent.TASK_LAUNCHED, {**OF_A, "task_attempt": 1})]
    found = read(LAUNCHED + again, limited(plan(gang=False), role=3100.0))
    (deadline,) = found.limits.start(A)
    assert deadline.end is not None
    assert deadline.end - time.monotonic() == pytest.approx(100, abs=SLACK)


def test_time_without_a_place_counts_for_no_limit(read) -> None:
    found = read(LAUNCHED, limited(plan(), job=4000.0, role=3500.0), allocation=Allocation(1))
    assert found.restart is not None
    assert found.restart.waited_sec == pytest.approx(3000, abs=SLACK)
    assert found.limits.job_left() == pytest.approx(3400, abs=SLACK)


def test_time_in_a_queue_counts_for_no_limit(read) -> None:
    held: Events = [(2000, JobEvent.TIME_STOOD_STILL, {"waited_sec": 500.0})] * 2
    found = read(LAUNCHED + held, limited(plan(), job=4000.0, role=3500.0))
    assert found.limits.job_left() == pytest.approx(1400, abs=SLACK)
    (_, of_role) = found.limits.start(A)
    assert of_role.end is not None
    assert of_role.end - time.monotonic() == pytest.approx(1500, abs=SLACK)


def test_the_controllers_last_sign_of_life_may_be_later_than_its_last_event(read, tmp_path: Path) -> None:
    files = Run(tmp_path).cluster
    files.make()
    files.write(files.heartbeat, {"host": "n1", "pid": 1, "time": time.time() - 60})
    found = read(LAUNCHED, allocation=Allocation(1))
    assert found.restart is not None
    assert found.restart.waited_sec == pytest.approx(60, abs=SLACK)


def test_a_wait_before_is_not_forgotten_by_the_next_controller(read) -> None:
    facts = {"allocation": 1, "adopts": False, "cause": None, "why": "", "text": "", "waited_sec": 2000.0}
    began: Events = [(100, JobEvent.CONTROLLER_RESTARTED, facts)]
    found = read(LAUNCHED + began, limited(plan(), job=4000.0), allocation=Allocation(1))
    assert found.limits.job_left() == pytest.approx(2400, abs=SLACK)
    assert found.restart is not None
    assert (found.restart.adopts, found.restart.waited_sec) == (False, 0.0)
    assert found.record.lost is not None


def test_a_task_waits_only_for_the_rest_of_its_delay(read) -> None:
    facts = {**OF_A, "code": 1, "delay_sec": 100.0, **COUNTS}
    found = read([*LAUNCHED, (60, JobEvent.TASK_RETRYING, facts)], plan(gang=False))
    task = found.record.tasks[A]
    assert (task.state, task.task_attempt) == (State.WAITING, 1)
    assert (task.retries.done.accountable, task.retries.done.transient) == (1, 2)
    assert found.record.due[A] - time.monotonic() == pytest.approx(40, abs=SLACK)


def test_a_job_waits_only_for_the_rest_of_its_delay(read) -> None:
    end = {"attempt": 0, "verdict": "failed", "code": 1, "trigger": "it failed", "text": "it failed"}
    found = read([
        *LAUNCHED, (60, JobEvent.ATTEMPT_COMPLETED, end), (60, JobEvent.JOB_RETRYING, {"delay_sec": 100.0, **COUNTS}),
    ])  # fmt: skip
    assert (found.stage, found.retries.done.transient) == (Stage.RETRYING, 2)
    assert found.retry_due - time.monotonic() == pytest.approx(40, abs=SLACK)


def test_tasks_that_ran_when_a_stop_was_announced_are_warned_again(read) -> None:
    announced: Events = [(50, JobEvent.STOP_ANNOUNCED, {"by": "notice", "text": "soon"})]
    after: Events = [(40, JobEvent.TASK_LAUNCHED, OF_B)]
    assert read(LAUNCHED + announced + after).record.warned == {A}


def test_only_the_task_that_a_notice_was_about_is_warned_again(read) -> None:
    announced: Events = [(50, JobEvent.TASK_LAUNCHED, OF_B)]
    announced += [(40, JobEvent.STOP_ANNOUNCED, {"role": "w", "index": 1, "by": "notice", "text": "soon"})]
    assert read(LAUNCHED + announced).record.warned == {B}


def test_a_task_that_is_held_since_is_not_warned(read) -> None:
    announced: Events = [(50, JobEvent.STOP_ANNOUNCED, {"by": "notice", "text": "soon"})]
    held = {**OF_A, "run": "r", "code": 3, "message": "", "until": timestamp(0)}
    found = read([*LAUNCHED, *announced, (40, JobEvent.TASK_HELD, held)])
    assert (found.record.warned, found.hold.task, found.record.released) == (set(), A, False)


def test_a_hold_whose_end_was_asked_for_is_ended_again(read) -> None:
    held = {**OF_A, "run": "r", "code": 3, "message": "", "until": timestamp(0)}
    events: Events = [*LAUNCHED, (50, JobEvent.TASK_HELD, held), (40, JobEvent.TASK_RELEASED, OF_A)]
    assert read(events).record.released
    completed = {**OF_A, "state": "failed", "succeeded": False, "code": 3}
    found = read([(30, JobEvent.TASK_COMPLETED, completed)])
    assert (found.record.released, found.hold.task, found.hold.begin(B)) == (False, None, False)


def test_events_of_unknown_tasks_and_incomplete_ones_change_nothing(read) -> None:
    wrong: Events = [
        (50, JobEvent.TASK_LAUNCHED, {**OF_A, "role": "other"}), (50, JobEvent.TASK_COMPLETED, OF_A),
        (50, JobEvent.TASK_RETRYING, {**OF_A, "delay_sec": 1.0}), (50, JobEvent.STOP_REQUESTED, {"by": "x"}),
    ]  # fmt: skip
    found = read(LAUNCHED + wrong)
    assert (found.record.running, found.stops, found.record.verdict) == ({A: 0}, None, None)


def test_what_another_controller_would_decide_otherwise_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    with Stops() as stops, JobLog(Run(tmp_path), stops) as log:
        monkeypatch.setattr(
            EventLog, "append", lambda self, event, *, sync, **facts: synced.append(event) if sync else None
        )
        for event in (JobEvent.TASK_RETRYING, JobEvent.STOP_REQUESTED, JobEvent.JOB_RETRYING, JobEvent.TASK_PLACED):
            log(event)
    assert synced == [JobEvent.TASK_RETRYING, JobEvent.STOP_REQUESTED, JobEvent.JOB_RETRYING]


def test_only_reports_of_the_latest_attempt_are_read(read, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    monkeypatch.setattr(resume.reports, "stored", lambda run, task, attempt, number: found.append(attempt))
    end = {**OF_A, "state": "failed", "succeeded": False, "code": 1, "reason": "command-failed"}
    second: Events = [(1, JobEvent.ATTEMPT_STARTED, {"attempt": 1}), (1, JobEvent.TASK_LAUNCHED, OF_A)]
    read([*LAUNCHED, (50, JobEvent.TASK_COMPLETED, end), *second, (1, JobEvent.TASK_COMPLETED, end)])
    assert found == [1]


def test_a_report_or_a_history_of_any_size_makes_no_event_that_readers_skip(scene: Scene) -> None:
    found = Diagnosis(
        "python_bug", PERMANENT, "likely", "user", "x" * LONGEST_LINE, (), rule="r", frame="f" * LONGEST_LINE
    )
    end = failed(A, diagnosis=found.to_json(), evidence={"last_output": "y" * LONGEST_LINE})
    scene.job(plan(1, gang=False, task_retries=1), (end,), (succeeded(A),))
    facts = scene.facts[JobEvent.TASK_RETRYING]
    assert len(json.dumps(facts)) < 10_000
    assert History.of_facts(facts).failure is not None
