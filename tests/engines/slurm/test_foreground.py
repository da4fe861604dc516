"""`kedge run` on Slurm in the foreground: what it shows while the job waits, and its exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kedge.cli import new_run
from kedge.cli.commands import attach, logs, ps, rm, show
from kedge.jobs import runs
from kedge.jobs.engine_choice import EngineChoice
from kedge.resolve.model import Inputs
from kedge.runs import liveness, status
from kedge.runs.liveness import JobPhase
from kedge.states import State
from kedge.testing.wait import wait_until

from . import fake_slurm
from .test_submission import ENDS_WELL

_DEADLINE = 120.0
Script = Callable[[str], None]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Signals are handled as before when the command has ended: it leaves them ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _run(file: Path, *, detach: bool = False) -> int:
    return new_run.run(
        str(file), Inputs("me"), EngineChoice("slurm"), detach=detach, quiet=False, as_json=False
    )  # fmt: skip


def _once_pending(then: Callable[[], object]) -> threading.Thread:
    """Does something as soon as Slurm has said that the only run is pending, and a viewer could have read it."""

    def watch() -> None:
        wait_until(lambda: any(_is_pending(run) for run, _, _ in runs.all_runs()), _DEADLINE)
        then()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def _is_pending(run: runs.Run) -> bool:
    return liveness.last_answer(run.cluster).state == JobPhase.PENDING


def test_a_pending_job_says_why(
    job_file: Path, slurm: Path, controller: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm / "hold").write_text("Resources")
    controller(ENDS_WELL)
    said = tmp_path / "stderr"  # pytest's own capture would lose what is written while another thread reads it

    def release() -> None:
        wait_until(lambda: "job 1 is pending: " in said.read_text(), _DEADLINE)
        fake_slurm.release(slurm)

    with said.open("w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        thread = _once_pending(release)
        assert _run(job_file) == 0
        thread.join()
    assert "(Resources)" in said.read_text()
    assert "expected to start on 2030-01-02 at" in said.read_text()


def test_ctrl_c_cancels_a_pending_job(job_file: Path, slurm: Path, controller: Script) -> None:
    (slurm / "hold").write_text("Priority")
    thread = _once_pending(lambda: os.kill(os.getpid(), signal.SIGINT))
    assert _run(job_file) == 130
    thread.join()
    assert fake_slurm.jobs(slurm)[0]["state"] == "CANCELLED"
    assert [now.text for _, _, now in runs.all_runs()] == ["stopped by Ctrl-C"]


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGHUP], ids=["Ctrl-\\", "the terminal is closed"])
def test_a_detached_viewer_leaves_the_job(
    job_file: Path, slurm: Path, controller: Script, capfd: pytest.CaptureFixture[str], number: int
) -> None:
    (slurm / "hold").write_text("Priority")
    thread = _once_pending(lambda: os.kill(os.getpid(), number))
    assert _run(job_file) == 0
    thread.join()
    assert "continues in the background" in capfd.readouterr().err
    assert fake_slurm.jobs(slurm)[0]["state"] == "PENDING"


def test_other_commands_say_that_it_is_pending(
    job_file: Path, slurm: Path, controller: Script, capfd: pytest.CaptureFixture[str]
) -> None:
    (slurm / "hold").write_text("Resources")
    assert _run(job_file, detach=True) == 0
    ((run, _, _),) = runs.all_runs()
    for command, said in (
        (logs.command, f"{run.id} is pending: the job waits for nodes"),
        (show.command, "Cluster     job 1\n"),
        (rm.command, f"{run.id} is pending: stop it first"),
    ):
        result = CliRunner().invoke(command, [run.id])
        assert said in f"{result.output}{result.exception}{''.join(capfd.readouterr())}"
    assert attach._opening(run, status.read(run)).startswith(f"{run.id} is pending, submitted ")


def test_other_commands_say_that_slurm_does_not_answer(
    job_file: Path, slurm: Path, controller: Script, capfd: pytest.CaptureFixture[str]
) -> None:
    (slurm / "hold").write_text("Resources")
    assert _run(job_file, detach=True) == 0
    (slurm / "silent").touch()
    ((run, _, _),) = runs.all_runs()
    silence = "is unknown: squeue: Unable to contact slurm controller"
    for command, arguments in ((logs.command, [run.id]), (show.command, [run.id]), (ps.command, [])):
        result = CliRunner().invoke(command, arguments)
        assert silence in f"{result.output}{''.join(capfd.readouterr())}"
    assert "state unknown" in CliRunner().invoke(ps.command, []).stdout


def test_a_job_in_the_background_is_its_id(
    job_file: Path, slurm: Path, controller: Script, capfd: pytest.CaptureFixture[str]
) -> None:
    (slurm / "hold").write_text("Priority")
    assert _run(job_file, detach=True) == 0
    ((run, _, now),) = runs.all_runs()
    assert capfd.readouterr().out == f"{run.id}\n"
    assert (now.state, now.cluster_job) == (State.WAITING, "1")
    run.cluster.scheduler.unlink(missing_ok=True)
    assert status.read(run).cluster_job == "1"
