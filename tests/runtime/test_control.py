"""Requests through the control FIFO, and a TaskSpec that is written after the start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kedge import contract
from kedge.contract import StopPolicy
from kedge.testing.wait import wait_until

WAITS = "touch ready; while :; do sleep 0.05; done"
IGNORES = f"trap '' TERM INT; {WAITS}"


@pytest.fixture
def control(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "control")
    return tmp_path / "control"


def running(attempt, control, command=WAITS, **spec):
    attempt.spec = attempt.spec._replace(**spec)
    attempt.start(command, "--control", str(control))
    attempt.wait_for("ready")


def test_a_stop(attempt, control):
    running(attempt, control)
    control.write_text("stop\n")
    assert attempt.wait() == 143
    assert (attempt.report["stopped_by"], attempt.report["killed"]) == ("TERM", False)


def test_a_repeated_stop_does_not_end_the_grace_period_but_its_end_does(attempt, control):
    running(attempt, control, IGNORES, stop=StopPolicy("TERM", 600.0))
    control.write_text("stop\nstop\n")
    attempt.wait_for_event(contract.STOPPING)
    attempt.signal(signal.SIGTERM)  # a scheduler's own
    control.write_text("sto")
    control.write_text("p\n" + "x" * 10_000 + "\n\xff\n\n")
    with open(control, "wb", buffering=0) as fifo:
        fifo.write(b"warn\n")
    assert attempt.process.poll() is None
    control.write_text("end-grace\n")
    assert attempt.wait() == 137
    assert (attempt.report["stopped_by"], attempt.report["killed"]) == ("TERM", True)
    assert len([event for event in attempt.events if event["event"] == contract.STOPPING]) == 1


def test_a_warning_runs_the_hooks_before_a_stop(attempt, control, step):
    running(attempt, control, "touch ready; until [ -e warned ]; do sleep 0.02; done", steps=(
        step("x", beforeStop="touch warned"),
    ))  # fmt: skip
    control.write_text("warn\n")
    assert attempt.wait() == 0
    assert attempt.wait_for_event(contract.STOP_ANNOUNCED)


def test_a_held_task_is_released(attempt, control):
    attempt.spec = attempt.spec._replace(hold_sec=3600.0)
    attempt.start("exit 7", "--control", str(control))
    attempt.wait_for_event(contract.HELD)
    control.write_text("release\n")
    assert attempt.wait() == 255
    assert attempt.report["user_exit_code"] == 7


@pytest.mark.parametrize("kind", ["file", "nothing"])
def test_what_is_no_fifo_is_refused(attempt, tmp_path, kind):
    (tmp_path / "file").touch()
    assert attempt.run("true", "--control", str(tmp_path / kind)) == contract.RUNTIME_BROKE
    assert not (attempt.folder / contract.REPORT_FILE).exists()


@pytest.fixture
def waiting(attempt, control):
    """A supervisor that waits for its spec. `write()` writes it as the agent does."""
    attempt.start("true", "--control", str(control))  # makes the file
    attempt.wait()
    (attempt.folder / contract.REPORT_FILE).unlink()
    spec = attempt.folder / contract.SPEC_FILE
    spec.rename(control.with_name("later"))
    argv = [sys.executable, "-I", "-S", attempt.launcher, str(spec), "--wait-spec", "--control", str(control)]
    attempt.process = subprocess.Popen(argv)
    wait_until(lambda: handles(attempt.process.pid, signal.SIGTERM), what="the wait for the spec")
    return lambda: control.with_name("later").rename(spec)


def handles(pid: int, number: int) -> bool:
    text = Path(f"/proc/{pid}/status").read_text()
    return bool(int(text.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("line", ["spec\n", ""])
def test_a_spec_that_is_written_later(attempt, control, waiting, line):
    assert attempt.process.poll() is None
    waiting()
    if line:
        control.write_text(line)
    assert attempt.wait() == 0
    assert attempt.report["exit_code"] == 0


def test_a_stop_before_the_spec(attempt, control, waiting):
    control.write_text("warn\nstop\n")
    assert attempt.wait() == contract.SHELL_TERMINATED
    assert not (attempt.folder / contract.REPORT_FILE).exists()


def test_a_signal_before_the_spec(attempt, waiting):
    attempt.signal(signal.SIGINT)
    assert attempt.wait() == 130
    assert not (attempt.folder / contract.REPORT_FILE).exists()
