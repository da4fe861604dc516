"""A run says how it ended, whatever goes wrong."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from kedge.diagnose.decide.job import Fold, JobVerdict
from kedge.diagnose.model import PERMANENT, Diagnosis
from kedge.engines.base import JobOutcome
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.job_log import JobLog
from kedge.engines.controller.stop_requests import Stops
from kedge.errors import DiskFull
from kedge.runs import events, liveness
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.states import State


def write_where_nothing_fits(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
    Path("/dev/full").write_text("something")
    raise AssertionError


def divide(stops: Stops, log: JobLog, stack: ExitStack) -> JobOutcome:
    raise ValueError(1 / 0)


def many(count: int) -> JobVerdict:
    """The verdict on a job of which so many other tasks failed, too."""
    return JobVerdict(
        "w:0",
        Diagnosis("gpu_oom", PERMANENT, "sure", "user", "It broke.", ()),
        (Fold("stopped", tuple(f"w:{n}" for n in range(count))),),
    )


def last(run: Run) -> events.Event:
    return list(events.read(run.events))[-1]


def test_a_full_disk_between_attempts_is_the_end_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(DiskFull, match="the file system is full"):
        controlled(Run(tmp_path), write_where_nothing_fits)
    end = last(Run(tmp_path))
    assert (end["event"], end["state"]) == (JobEvent.JOB_COMPLETED, State.FAILED)
    assert "the file system is full" in end["text"]


def test_a_bug_is_the_end_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        controlled(Run(tmp_path), divide)
    assert last(Run(tmp_path))["text"] == "kedge failed: ZeroDivisionError('division by zero')"


@pytest.mark.parametrize(("count", "others"), [(10, 1), (20_000, 0)])
def test_the_end_holds_the_verdict_and_stays_short(tmp_path: Path, count: int, others: int) -> None:
    run = Run(tmp_path)
    controlled(run, lambda stops, log, stack: JobOutcome(State.FAILED, 1, "it broke", 0, many(count)))
    end = last(run)
    assert (end["judged"]["diagnosis"]["cause"], len(end["judged"]["others"])) == ("gpu_oom", others)
    assert liveness.has_end(run)
