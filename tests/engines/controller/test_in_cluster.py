"""A controller inside a cluster: its orders come from the run folder, and it records an end whatever goes wrong."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kedge.controller import in_cluster
from kedge.diagnose.decide.job import Fold, JobVerdict
from kedge.diagnose.model import PERMANENT, Diagnosis
from kedge.engines.base import JobOutcome
from kedge.engines.cluster.claim import Claim
from kedge.engines.controller.job_lifetime import controlled
from kedge.engines.controller.stop_requests import StopFacts, Stops
from kedge.errors import EXIT_BUG, EXIT_CANNOT_RUN, EXIT_FAILED, EXIT_INPUT, CannotRun
from kedge.lazy_modules import CONTROLLERS
from kedge.plan.lossless import to_lossless
from kedge.runs import cluster_files, events, report
from kedge.runs.events import EventLog
from kedge.runs.folder import Run, RunInfo
from kedge.runs.job_events import JobEvent
from kedge.states import State

from .scripted import plan

FAILED = JobOutcome(State.FAILED, 7, "it broke", 0, JobVerdict(None, None))

OOM = Diagnosis("gpu_oom", PERMANENT, "sure", "user code", "It broke.", ())


class Engine:
    """What the orders name; `act` is what it does with the run."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.outcome = FAILED
        self.stopped = StopFacts("", False)

    def run(self, made: Any, run: Run, secrets: Any, options: Any) -> JobOutcome:
        self.calls.append((made.job, dict(secrets.texts), options))
        if self.error:
            raise self.error
        return controlled(run, self._controlled)

    def _controlled(self, stops: Stops, *_: object) -> JobOutcome:
        self.stopped = StopFacts(**stops.facts())
        return self.outcome


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    made = Engine()
    monkeypatch.setitem(sys.modules, "engine_of_test", SimpleNamespace(run=made.run))
    monkeypatch.setitem(CONTROLLERS, "slurm", "engine_of_test:run")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield made
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    files = cluster_files.of(tmp_path)
    files.make()
    files.write(files.orders, {"engine": "slurm", "options": {"partition": "main"}, "plan": to_lossless(plan(1))})
    files.write(files.secrets, {"document": {"token": "x"}, "texts": {"token": "x"}})
    with EventLog(tmp_path / "events.jsonl") as log:
        log.append(JobEvent.JOB_SUBMITTED, roles={"w": 1})
    return Run(tmp_path)


def ends(run: Run) -> list[events.Event]:
    return [event for event in events.read(run.events) if event["event"] == JobEvent.JOB_COMPLETED]


def start(run: Run) -> int:
    return in_cluster.main([str(run.path)])


def test_secrets_may_have_any_values(run: Run, engine: Engine) -> None:
    """As on one machine: whoever has written them is no stranger."""
    texts = {"account": str(10**30)}
    run.cluster.write(run.cluster.secrets, {"document": {"account": 10**30}, "texts": texts})
    assert start(run) == EXIT_FAILED
    assert engine.calls == [("j", texts, {"partition": "main"})]


def test_it_runs_the_job_of_its_orders_and_writes_the_report(run: Run, engine: Engine) -> None:
    assert start(run) == EXIT_FAILED
    assert engine.calls == [("j", {"token": "x"}, {"partition": "main"})]
    assert json.loads((run.path / "report.json").read_text())["text"] == "it broke"
    assert not cluster_files.of(run.path).secrets.exists()


@pytest.mark.parametrize(("names", "kill"), [(["TERM"], False), (["USR2", "USR1"], True)])
def test_it_gets_the_signals_that_came_before_it(run: Run, engine: Engine, names: list[str], kill: bool) -> None:
    assert in_cluster.main([str(run.path), *names]) == EXIT_FAILED
    assert engine.stopped == StopFacts("a stop request", kill)


@pytest.mark.parametrize("arguments", [[], ["/run", "NONE"], ["/run", "-9"]])
def test_it_says_how_it_is_started(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert in_cluster.main(arguments) == EXIT_INPUT
    assert capfd.readouterr().err == "usage: controller RUN_FOLDER [SIGNAL...]\n"


def test_all_secrets_that_a_job_may_have_reach_it(run: Run, engine: Engine) -> None:
    """Each may have 1 MiB."""
    values = {f"key{number}": "x" * (1 << 20) for number in range(4)}
    cluster_files.of(run.path).write(cluster_files.of(run.path).secrets, {"document": values, "texts": values})
    assert start(run) == EXIT_FAILED
    assert engine.calls == [("j", values, {"partition": "main"})]


def test_of_a_job_that_has_ended_it_only_completes_the_report(run: Run, engine: Engine) -> None:
    with EventLog(run.events) as log:
        log.append(JobEvent.JOB_COMPLETED, state=State.FAILED, code=7, text="it broke", exit_code=5)
    assert start(run) == 5
    assert not engine.calls
    assert json.loads((run.path / "report.json").read_text())["state"] == "failed"
    assert not cluster_files.of(run.path).secrets.exists()


def test_one_that_comes_while_another_records_the_end_does_not_record_it_again(
    run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The job was queued again at that moment. The second controller waits for the log."""

    def second() -> JobOutcome:
        claim = Claim(run, 1, "the second one")
        with EventLog(run.events) as log:  # as the first one does meanwhile
            log.append(JobEvent.JOB_COMPLETED, state=State.SUCCEEDED, code=0, text="it worked", exit_code=0)
        return controlled(run, engine._controlled, None, claim)

    monkeypatch.setattr(sys.modules["engine_of_test"], "run", lambda *_: second())
    assert start(run) == 0
    assert len(ends(run)) == 1
    assert capfd.readouterr().err == ""


def test_one_killed_before_the_report_is_followed_by_one_that_writes_it(
    run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.outcome = FAILED._replace(judged=JobVerdict("w:0", OOM, (Fold("stopped", ("w:1",)),)))
    run.save(RunInfo(run.id, "j", "me", "slurm", "2026-01-01T00:00:00.000000Z", "1", "job.yaml"))
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(in_cluster, "write_report", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        start(run)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert not report.exists(run)
    assert start(run) == EXIT_FAILED
    assert not engine.calls, "the second one runs nothing"
    written = json.loads((run.path / "report.json").read_text())
    assert (written["root"]["task"], written["root"]["cause"]) == ("w:0", "gpu_oom")
    assert written["others"][0]["tasks"] == ["w:1"]
    assert not run.cluster.secrets.exists()


def test_orders_that_cannot_be_read_end_the_job(run: Run, engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    orders = cluster_files.of(run.path).orders
    orders.unlink()
    assert start(run) == EXIT_CANNOT_RUN
    assert [end["text"].partition(" cannot be read")[0] for end in ends(run)] == [str(orders)]
    assert "must be on a file system that all nodes of the cluster share" in capfd.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(CannotRun("no node"), EXIT_CANNOT_RUN), (ValueError("x"), EXIT_BUG)])
def test_an_error_before_the_job_begins_is_its_end(run: Run, engine: Engine, error: Exception, code: int) -> None:
    engine.error = error
    assert start(run) == code
    assert [end["exit_code"] for end in ends(run)] == [code]
    assert start(run) == code
    assert len(engine.calls) == 1


def test_an_unknown_engine_is_named(run: Run, engine: Engine) -> None:
    files = cluster_files.of(run.path)
    files.write(files.orders, {"engine": "other", "options": {}, "plan": {}})
    assert start(run) == EXIT_CANNOT_RUN
    assert "the engine other has no controller" in ends(run)[0]["text"]
