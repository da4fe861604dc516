"""The job of a killed controller continues in another allocation: what ran is gone, what is known is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kedge.contract import STOPPED_BY_COMPLETION, STOPPED_BY_USER
from kedge.engines.base import Started
from kedge.engines.controller.allocation import NODE_FAILURE, PREEMPTED, Allocation
from kedge.engines.controller.progress import Restart
from kedge.runs.events import EventLog
from kedge.runs.job_events import JobEvent
from kedge.states import State
from kedge.testing.backend import failed, stopped, succeeded

from .scripted import A, B, plan
from .takeover import ASK, Happening, Instants, Killed, Result, Takeovers

BOTH = (Started(A), Started(B))
PASS = (succeeded(A), succeeded(B))
SECOND = Allocation(1, PREEMPTED, "preempted by a job of a higher priority")
Make = Callable[..., Takeovers]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    numbers = count()

    def make(*turns: tuple[Happening, ...], **keys: Any) -> Takeovers:
        return Takeovers(tmp_path / str(next(numbers)), plan(**keys), turns, stored=True)

    return make


def until_the_script_is_over(job: Takeovers) -> Takeovers:
    """Kill the first controller where it would wait for ever."""
    counted = Instants()
    with pytest.raises(AssertionError, match="the script is over"):
        job.controller(counted)
    return job


def second(job: Takeovers, *turns: tuple[Happening, ...], allocation: Allocation = SECOND, kill: int = 0) -> Result:
    job.requeue(allocation, *turns)
    return job.run(*[kill] if kill else [])


def states(job: Takeovers) -> list[tuple[str, int]]:
    """What is recorded of the ends of tasks."""
    return [(event["state"], event["code"]) for event in job.of(JobEvent.TASK_COMPLETED)]


def test_what_ran_is_tried_again_as_another_attempt(make: Make) -> None:
    job = until_the_script_is_over(make(BOTH))
    assert second(job, PASS).outcome[:3] == (State.SUCCEEDED, 1, 0)
    (first, _) = job.of(JobEvent.ATTEMPT_COMPLETED)
    assert (first["verdict"], first["code"], first["text"]) == ("failed", SECOND.code, SECOND.text)
    assert first["root"] == {"task": None, "cause": PREEMPTED, "behavior": "transient"}
    assert states(job)[:2] == [(State.STOPPED, SECOND.code)] * 2
    (retry,) = job.of(JobEvent.JOB_RETRYING)
    assert (retry["retries"]["transient"], retry["decided_by"]) == (0, "stock-exit-spec")
    assert job.world.calls.count("adopt 0") == 0


@pytest.mark.parametrize("turns", [(BOTH,), (BOTH, (succeeded(A),)), (BOTH, (failed(A),))])
def test_a_controller_of_the_second_allocation_that_is_killed_at_any_instant_changes_nothing(
    make: Make, turns: tuple[Any, ...]
) -> None:
    def lost() -> Takeovers:
        job = until_the_script_is_over(make(*turns, job_retries=1))
        job.requeue(SECOND, PASS)
        return job

    expected, counted = lost().run(), Instants()
    lost().controller(counted)
    assert expected.outcome[:2] == (State.SUCCEEDED, 1)
    for at in range(1, counted.seen + 1):
        job = lost()
        assert job.run(at) == expected, f"killed at instant {at} of {counted.seen}"
        assert len([event for event in job.of(JobEvent.CONTROLLER_RESTARTED) if event["waited_sec"]]) <= 1


def test_losses_count_as_transient_failures(make: Make) -> None:
    job = until_the_script_is_over(make(BOTH, max_transient=1))
    job.requeue(Allocation(1, NODE_FAILURE, "the node n2 failed"), BOTH)
    until_the_script_is_over(job)
    result = second(job, allocation=Allocation(2, NODE_FAILURE, "the node n1 failed"))
    assert result.outcome[:3] == (State.FAILED, 1, -1001)
    text = "the node n1 failed; not retried: given up after 1 retry for transient failures (maxTransient is 1)"
    assert result.outcome[4] == text
    assert result.outcome[5] == NODE_FAILURE


def test_preemptions_are_not_counted(make: Make) -> None:
    job = until_the_script_is_over(make(BOTH, max_transient=0))
    assert second(job, PASS).outcome[:2] == (State.SUCCEEDED, 1)


def test_an_allocation_that_the_job_has_asked_for_counts_for_nothing(make: Make) -> None:
    job = until_the_script_is_over(make(BOTH, max_transient=0))
    with EventLog(job.run_folder.events) as log:
        log.append(JobEvent.ALLOCATION_REQUESTED, text="its time is nearly over")
    asked = Allocation(1, text="its time was over")
    assert second(job, PASS, allocation=asked).outcome[:2] == (State.SUCCEEDED, 1)
    assert job.of(JobEvent.JOB_RETRYING)[0]["retries"] == {"accountable": 0, "transient": 0, "unseen": 0}
    assert job.of(JobEvent.ATTEMPT_COMPLETED)[0]["root"] is None


def test_a_job_whose_tasks_had_all_succeeded_is_not_tried_again(make: Make) -> None:
    job = make(BOTH, PASS)
    with pytest.raises(Killed):
        job.controller(_at_the_end_of_poll(job))
    assert not job.of(JobEvent.TASK_COMPLETED)
    assert second(job).outcome[:3] == (State.SUCCEEDED, 0, 0)


def test_a_task_that_had_succeeded_is_recorded_and_tried_again_with_the_others(make: Make) -> None:
    job = make(BOTH, (succeeded(A),))
    with pytest.raises(Killed):
        job.controller(_at_the_end_of_poll(job))
    second(job, PASS)
    assert states(job) == [
        (State.SUCCEEDED, 0), (State.STOPPED, SECOND.code), (State.SUCCEEDED, 0), (State.SUCCEEDED, 0),
    ]  # fmt: skip


def test_a_task_that_ended_because_it_was_told_to_stop_has_not_succeeded(make: Make) -> None:
    job = make(BOTH, (stopped(A, 0),))
    with pytest.raises(Killed):
        job.controller(_at_the_end_of_poll(job))
    second(job, PASS)
    assert states(job)[0] == (State.STOPPED, SECOND.code)


def test_what_was_decided_before_is_kept(make: Make) -> None:
    job = until_the_script_is_over(make(BOTH, (failed(A),)))
    result = second(job)
    assert result.outcome[:3] == (State.FAILED, 0, 1)
    assert states(job) == [(State.FAILED, 1), (State.STOPPED, STOPPED_BY_COMPLETION)]


def test_a_job_that_was_asked_to_stop_does_not_begin_again(make: Make) -> None:
    job = until_the_script_is_over(make(BOTH, (ASK,)))
    assert second(job).outcome[:3] == (State.STOPPED, 0, STOPPED_BY_USER)
    assert states(job) == [(State.STOPPED, STOPPED_BY_USER)] * 2


def test_an_allocation_before_anything_began_is_recorded(make: Make) -> None:
    job = make()
    job.requeue(SECOND, BOTH)
    until_the_script_is_over(job)
    assert job.of(JobEvent.CONTROLLER_RESTARTED)[0]["allocation"] == 1
    job.world.turns.append(PASS)
    assert job.run().outcome[:2] == (State.SUCCEEDED, 0)
    assert [event["adopts"] for event in job.of(JobEvent.CONTROLLER_RESTARTED)] == [False, True]


def test_a_restart_is_a_note_for_the_user(make: Make) -> None:
    job = until_the_script_is_over(make(BOTH))
    second(job, PASS)
    (note,) = job.now().notes
    assert note.startswith(f"the job continues in another allocation: {SECOND.text} (20")
    assert "another allocation: the job was queued again" in Restart(Allocation(1), adopts=False).facts()["text"]


def test_of_many_restarts_only_the_latest_are_shown(make: Make) -> None:
    job = make(BOTH, PASS)
    job.run(*[8] * 6)
    notes = job.now().notes
    assert len(job.of(JobEvent.CONTROLLER_RESTARTED)) > 4
    assert len(notes) == 4
    assert "earlier restarts are in events.jsonl" in notes[0]


def _at_the_end_of_poll(job: Takeovers) -> Instants:
    """The instant when the last turn has happened, and the controller has not heard of it."""

    class LastTurn(Instants):
        def __call__(self) -> None:
            if not job.world.turns:
                raise Killed

    return LastTurn()
