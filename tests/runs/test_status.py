from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import EVENTS_FILE, FINISHED, Report
from kedge.runs import status
from kedge.runs.controller_lock import ControllerLock, hold
from kedge.runs.events import EventLog
from kedge.runs.folder import Run, create
from kedge.runs.job_events import JobEvent
from kedge.runs.status import JobStatus, ServiceStatus, TaskStatus, fold
from kedge.states import State

THEN = "2026-02-01T02:54:48.123456789Z"
SUBMITTED: dict[str, Any] = {"event": JobEvent.JOB_SUBMITTED, "roles": {"worker": 2, "ps": 1}}
STARTED: dict[str, Any] = {"event": JobEvent.ATTEMPT_STARTED, "attempt": 0}


def task(event: str, index: int = 0, **facts: Any) -> dict[str, Any]:
    return {"event": event, "role": "worker", "index": index, **facts}


def folded(*events: dict[str, Any]) -> JobStatus:
    return fold({"time": f"t{n}", **event} for n, event in enumerate(events))


def state(*events: dict[str, Any]) -> str:
    return folded(SUBMITTED, *events).state


def test_states_of_a_job() -> None:
    assert folded().state == State.WAITING
    assert state() == State.WAITING
    assert state(STARTED) == State.RUNNING
    assert state(STARTED, {"event": JobEvent.ATTEMPT_COMPLETED}) == State.RUNNING
    assert state(STARTED, {"event": JobEvent.JOB_RETRYING}) == State.WAITING
    assert (
        state(STARTED, {"event": JobEvent.JOB_RETRYING}, {"event": JobEvent.ATTEMPT_STARTED, "attempt": 1})
        == State.RUNNING
    )
    assert state(STARTED, {"event": JobEvent.STOP_REQUESTED}) == State.STOPPING
    assert state({"event": JobEvent.STOP_REQUESTED}, STARTED) == State.STOPPING


@pytest.mark.parametrize("final", [State.SUCCEEDED, State.FAILED, State.STOPPED])
def test_how_a_job_ended(final: str) -> None:
    ended = {"event": JobEvent.JOB_COMPLETED, "state": final, "code": 137, "text": "why"}
    found = folded(SUBMITTED, {"event": JobEvent.STOP_REQUESTED}, ended)
    assert (found.state, found.code, found.text, found.submitted, found.ended) == (final, 137, "why", "t0", "t2")


def test_a_task_from_launch_to_end() -> None:
    launched = [SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED, 1, task_attempt=0)]
    running = TaskStatus("worker", 1, State.RUNNING, 1, 1, started="t2")
    assert folded(*launched).tasks == (TaskStatus("worker", 0), running, TaskStatus("ps", 0))
    ended = task(JobEvent.TASK_COMPLETED, 1, succeeded=False, code=255, user_exit_code=3, reason="command-failed")
    assert folded(*launched, ended).tasks[1] == TaskStatus(
        "worker", 1, State.FAILED, 1, 1, 255, 3, "t2", "t3", "command-failed"
    )
    ended = task(JobEvent.TASK_COMPLETED, 1, succeeded=True, code=0, user_exit_code=0)
    assert folded(*launched, ended).tasks[1].state == State.SUCCEEDED


@pytest.mark.parametrize("code", [-210, -220])
def test_a_task_with_a_stop_code_is_stopped_and_not_failed(code: int) -> None:
    ended = task(JobEvent.TASK_COMPLETED, succeeded=False, code=code, user_exit_code=143)
    found = folded(SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED), ended).tasks[0]
    assert (found.state, found.exit_code) == (State.STOPPED, 143)


def test_a_task_that_is_retried() -> None:
    first = [
        SUBMITTED,
        STARTED,
        task(JobEvent.TASK_LAUNCHED, task_attempt=0),
        task(JobEvent.TASK_RETRYING, code=137, user_exit_code=137),
    ]
    waiting = folded(*first).tasks[0]
    assert (waiting.state, waiting.attempts, waiting.code, waiting.ended) == (State.WAITING, 1, 137, "t3")
    again = folded(*first, task(JobEvent.TASK_LAUNCHED, task_attempt=1)).tasks[0]
    assert again == TaskStatus("worker", 0, State.RUNNING, 2, 2, started="t4")


def test_a_retry_event_keeps_the_facts_of_the_ended_attempt() -> None:
    ended = task(JobEvent.TASK_COMPLETED, succeeded=False, code=137, reason="command-killed")
    found = folded(SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED), ended, task(JobEvent.TASK_RETRYING)).tasks[0]
    assert (found.state, found.code, found.ended, found.reason) == (State.WAITING, 137, "t3", "command-killed")


def test_a_new_job_attempt_resets_the_tasks() -> None:
    ended = [task(JobEvent.TASK_LAUNCHED), task(JobEvent.TASK_COMPLETED, succeeded=False, code=255)]
    found = folded(
        SUBMITTED, STARTED, *ended, {"event": JobEvent.JOB_RETRYING}, {"event": JobEvent.ATTEMPT_STARTED, "attempt": 1}
    )
    assert (found.attempt, found.tasks[0]) == (1, TaskStatus("worker", 0, tries=1))


def test_events_after_the_end_of_a_job_are_ignored() -> None:
    ends = [
        {"event": JobEvent.JOB_COMPLETED, "state": State.SUCCEEDED, "code": 0},
        {"event": JobEvent.JOB_COMPLETED, "state": State.STOPPED},
    ]
    found = folded(SUBMITTED, STARTED, *ends, {"event": JobEvent.JOB_RETRYING})
    assert (found.state, found.code, found.ended) == (State.SUCCEEDED, 0, "t2")


def test_tasks_that_never_ran_are_stopped_when_the_job_ends() -> None:
    found = folded(
        SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED), {"event": JobEvent.JOB_COMPLETED, "state": State.STOPPED}
    )
    assert [row.state for row in found.tasks] == [State.STOPPED, State.STOPPED, State.STOPPED]
    assert [row.ended for row in found.tasks] == [found.ended, None, None]  # they ran no longer than the job


def test_unknown_and_incomplete_events_do_no_harm() -> None:
    found = folded(
        {"event": "new-thing"}, {}, {"event": JobEvent.JOB_SUBMITTED}, {"event": JobEvent.JOB_COMPLETED, "state": "odd"}
    )
    assert (found.state, found.tasks) == (State.FAILED, ())
    assert folded(task(JobEvent.TASK_LAUNCHED)).tasks == (TaskStatus("worker", 0, State.RUNNING, 1, 1, started="t0"),)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(tmp_path, "digits")


@pytest.fixture
def lock(run: Run) -> Iterator[ControllerLock]:
    with hold(run.lock) as lock:
        yield lock


def append_events(run: Run, *events: dict[str, Any]) -> None:
    with EventLog(run.events) as log:
        for event in events:
            log.append(**event)


def test_a_run_with_a_live_controller(run: Run, lock: ControllerLock) -> None:
    assert status.read(run).state == State.WAITING
    append_events(run, SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED))
    assert status.read(run).state == State.RUNNING


def test_a_run_whose_controller_is_gone_is_lost(run: Run, lock: ControllerLock) -> None:
    append_events(run, SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED))
    lock.close()
    found = status.read(run)
    assert (found.state, [row.state for row in found.tasks]) == (State.LOST, [State.LOST, State.WAITING, State.WAITING])


def test_an_ended_run_is_not_lost(run: Run, lock: ControllerLock) -> None:
    append_events(
        run, SUBMITTED, STARTED, {"event": JobEvent.JOB_COMPLETED, "state": State.SUCCEEDED, "code": 0, "text": ""}
    )
    assert status.read(run).state == State.SUCCEEDED
    lock.close()
    assert status.read(run).state == State.SUCCEEDED


@pytest.mark.parametrize(("code", "expected"), [(0, State.SUCCEEDED), (255, State.FAILED)])
def test_a_finished_task_of_a_lost_job_keeps_its_result(run: Run, code: int, expected: str) -> None:
    append_events(run, SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED, task_attempt=1))
    folder = run.task("worker", 0, 0, 1)
    folder.mkdir(parents=True)
    with EventLog(folder / EVENTS_FILE) as log:
        log.append(FINISHED, **Report("worker:0", 0, 1, code, code and 3, "r", "m", THEN, THEN, 0.1)._asdict())
        log.append(FINISHED, exit_code="7", ended=3)
    with (folder / EVENTS_FILE).open("a") as file:
        file.write("[" * 100_000 + "\n")
    row = status.read(run).tasks[0]
    assert (row.state, row.code, row.exit_code, row.ended, row.reason) == (expected, code, code and 3, THEN, "r")


def test_a_torn_log_and_an_empty_folder(run: Run, lock: ControllerLock, tmp_path: Path) -> None:
    run.events.write_text(json.dumps(SUBMITTED) + "\n" + json.dumps(STARTED)[:-3])
    assert status.read(run).state == State.WAITING
    assert status.read(create(tmp_path, "empty")) == JobStatus(State.LOST, 0, ())


def test_notes_for_the_summary_are_kept_also_those_of_older_versions() -> None:
    passing = {"event": JobEvent.NOTE, "text": "pulling"}
    lasting = {"event": JobEvent.NOTE, "text": "2 files were lost", "in_summary": True}
    older = {"event": "remark", "text": "1 file was lost"}
    assert folded(SUBMITTED, passing, lasting, older).notes == ("2 files were lost", "1 file was lost")


def test_services_run_until_they_or_their_task_end() -> None:
    started = [task(JobEvent.SERVICE_STARTED, name=name, address=None) for name in ("a", "b")]
    known = task(JobEvent.SERVICE_STARTED, name="b", address="host:1")
    running = SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED, task_attempt=0), *started, known
    assert folded(*running).tasks[0].services == (ServiceStatus("a", None, True), ServiceStatus("b", "host:1", True))
    ended = *running, task(JobEvent.SERVICE_ENDED, name="a", code=1, task_over=False)
    assert [service.running for service in folded(*ended).tasks[0].services] == [False, True]
    over = *ended, task(JobEvent.TASK_COMPLETED, succeeded=True, code=0)
    assert [service.running for service in folded(*over).tasks[0].services] == [False, False]
    again = *running, task(JobEvent.TASK_RETRYING, code=1), task(JobEvent.TASK_LAUNCHED, task_attempt=1)
    assert folded(*again).tasks[0].services == ()


def test_a_held_task_ended_when_it_failed() -> None:
    until = "2026-02-01T03:54:48.000000000Z"
    held = task(JobEvent.TASK_HELD, code=7, message="exit code 7", until=until, run="r")
    running = SUBMITTED, STARTED, task(JobEvent.TASK_LAUNCHED, task_attempt=0)
    now = folded(*running, held)
    assert now.held == now.tasks[0]
    assert (now.tasks[0].state, now.tasks[0].held_until, now.tasks[0].exit_code) == (State.RUNNING, until, 7)
    over = folded(*running, held, task(JobEvent.TASK_COMPLETED, succeeded=False, code=255)).tasks[0]
    assert (over.state, over.held_until, over.ended) == (State.FAILED, None, "t3")
    assert folded(*running, {**held, "until": "soon"}).held is None, "a task may have written it"


PASSED: dict[str, Any] = {"event": JobEvent.BARRIER_PASSED, "attempt": 0}


def in_cluster(*events: dict[str, Any], own_places: bool = True) -> JobStatus:
    begun = {"event": JobEvent.BARRIER_BEGUN, "attempt": 0, "own_places": own_places}
    launched = [task(JobEvent.TASK_LAUNCHED, index, task_attempt=0) for index in range(2)]
    return folded({**SUBMITTED, "roles": {"worker": 2}}, STARTED, begun, *launched, *events)


def test_tasks_of_a_cluster_wait_until_all_have_come_together() -> None:
    said = task(JobEvent.TASK_WAITING, 1, text="no room")
    now = in_cluster(said)
    assert (now.state, now.pending) == (State.WAITING, "worker:1: no room")
    assert [(task.state, task.waits_for) for task in now.tasks] == [(State.WAITING, ""), (State.WAITING, "no room")]
    now = in_cluster(said, PASSED)
    assert (now.state, now.pending) == (State.RUNNING, None)
    assert [(task.state, task.waits_for) for task in now.tasks] == [(State.RUNNING, None)] * 2


@pytest.mark.parametrize("own_places", [True, False])
def test_a_task_that_is_tried_again_alone_may_wait_for_its_own_place(own_places: bool) -> None:
    placed, retried = task(JobEvent.TASK_PLACED, node="n1"), task(JobEvent.TASK_RETRYING)
    again = [placed, PASSED, retried, task(JobEvent.TASK_LAUNCHED, task_attempt=1)]
    now = in_cluster(*again, own_places=own_places)
    waits = (State.WAITING, None) if own_places else (State.RUNNING, "n1")
    assert (now.state, (now.tasks[0].state, now.tasks[0].node)) == (State.RUNNING, waits)
    word = task(JobEvent.TASK_WAITING, text=None)
    assert in_cluster(*again, word, own_places=own_places).tasks[0].state == State.RUNNING
    end = task(JobEvent.TASK_COMPLETED, state=State.FAILED, code=254)
    ended = in_cluster(*again, end, own_places=own_places).tasks[0]
    assert (ended.state, ended.waits_for, ended.ended) == (State.FAILED, None, "t9")
