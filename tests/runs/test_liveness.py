"""Whether a run has a controller: the lock on one machine; heartbeat and scheduler in a cluster."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge import lazy_modules
from kedge.runs import controller_lock, liveness
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase, SchedulerAnswer

_asked: list[str] = []
_says = [JobPhase.PENDING]


def ask_scheduler(run: Run) -> SchedulerAnswer:
    """What the scheduler of these tests says."""
    _asked.append(run.id)
    said = SchedulerAnswer(job="7", state=_says[0], checked=time.time())
    liveness.write_answer(run.cluster, said)
    return said


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setitem(lazy_modules.LIVENESS, "test", f"{__name__}:ask_scheduler")
    _asked.clear()
    _says[0] = JobPhase.PENDING
    run = Run(tmp_path)
    run.cluster.make()
    run.cluster.write(run.cluster.job, {"engine": "test", "job": "7"})
    return run


def test_a_local_run_is_controlled_while_its_lock_is_held(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert not liveness.is_controlled(run)
    with controller_lock.hold(run.lock):
        assert liveness.is_controlled(run)
    assert not liveness.is_controlled(run)


def test_a_fresh_heartbeat_needs_no_scheduler(run: Run) -> None:
    run.cluster.beat()
    assert liveness.is_controlled(run)
    assert not _asked


def _old_file(run: Run) -> None:
    os.utime(run.cluster.heartbeat, (1e9, 1e9))


def _old_time(run: Run) -> None:
    run.cluster.heartbeat.write_text(json.dumps({"host": "n1", "pid": 1, "time": 1e9}))


@pytest.mark.parametrize("clock", [_old_file, _old_time])
def test_one_of_the_clocks_may_be_wrong(run: Run, clock: Callable[[Run], None]) -> None:
    run.cluster.beat()
    clock(run)
    assert liveness.is_controlled(run)
    assert not _asked


def test_an_old_heartbeat_proves_nothing(run: Run) -> None:
    run.cluster.beat()
    _old_time(run)
    _old_file(run)
    assert liveness.is_controlled(run)
    assert _asked == [run.id]


def test_a_heartbeat_from_the_future_proves_nothing(run: Run) -> None:
    late = time.time() + 7200
    run.cluster.heartbeat.write_text(json.dumps({"host": "n1", "pid": 1, "time": late}))
    os.utime(run.cluster.heartbeat, (late, late))
    _says[0] = JobPhase.GONE
    assert not liveness.is_controlled(run)


def test_a_scheduler_that_does_not_answer_ends_nothing(run: Run) -> None:
    _says[0] = JobPhase.UNKNOWN
    assert liveness.is_controlled(run)


def test_the_scheduler_is_not_asked_again_at_once(run: Run) -> None:
    assert liveness.is_controlled(run)
    assert liveness.is_controlled(run)
    assert len(_asked) == 1


def _said(run: Run, since: float, took: float = 0.0, state: JobPhase = JobPhase.PENDING) -> None:
    """The scheduler has said the same since so many seconds ago, for the last time ten seconds ago."""
    now = time.time()
    run.cluster.write(
        run.cluster.scheduler, SchedulerAnswer("7", state, checked=now - 10, since=now - since, took=took)._asdict()
    )


@pytest.mark.parametrize(
    ("since", "took", "asked"), [(20.0, 0.1, True), (200.0, 0.1, False), (10.0, 5.0, False), (0.0, 0.0, True)]
)
def test_it_is_asked_less_often_while_it_says_the_same_or_is_slow(
    run: Run, since: float, took: float, asked: bool
) -> None:
    _said(run, since, took)
    assert liveness.is_controlled(run)
    assert bool(_asked) is asked


def test_it_is_asked_every_half_minute_at_least(run: Run) -> None:
    now = time.time()
    answer = SchedulerAnswer("7", JobPhase.PENDING, checked=now - 31, since=now - 1e6, took=20.0)
    run.cluster.write(run.cluster.scheduler, answer._asdict())
    assert liveness.is_controlled(run)
    assert _asked


def test_what_is_new_is_asked_for_often_again(run: Run) -> None:
    _said(run, 3600.0)
    liveness.write_answer(run.cluster, SchedulerAnswer("7", JobPhase.PENDING, "Priority", checked=time.time()))
    assert liveness.last_answer(run.cluster).cached_sec == liveness.CACHED_SEC
    _said(run, 3600.0)
    liveness.write_answer(run.cluster, SchedulerAnswer("7", JobPhase.PENDING, checked=time.time()))
    assert liveness.last_answer(run.cluster).cached_sec == liveness.LONGEST_CACHED_SEC


def test_a_recorded_end_is_the_end(run: Run) -> None:
    with EventLog(run.events) as log:
        log.append(JobEvent.JOB_COMPLETED, state="succeeded", code=0, text="")
    run.cluster.beat()
    assert liveness.is_controlled(run), "its controller writes the report"
    (run.path / "report.json").write_text("{}")
    assert not liveness.is_controlled(run)
    assert not _asked


def test_a_damaged_answer_is_none(run: Run) -> None:
    for text in ("", "[]", '{"checked": "now"}', '{"job": 7}'):
        run.cluster.scheduler.write_text(text)
        assert liveness.last_answer(run.cluster) == SchedulerAnswer()


def test_the_files_are_private(run: Run) -> None:
    run.cluster.write(run.cluster.secrets, {"texts": {}})
    run.cluster.beat()
    assert run.cluster.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in run.cluster.folder.iterdir()} == {0o600}
    run.cluster.remove_secrets()
    assert not run.cluster.secrets.exists()
