"""Signals that a viewer passes on to the controller of a run that another process has submitted."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from kedge.engines.machine import stop_run
from kedge.errors import CannotRun
from kedge.runs import controller_lock
from kedge.runs.folder import Run

_NO_PROCESS = (1 << 22) - 1  # the largest pid, which this machine will hardly reach


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_signal_reaches_the_process_that_has_signed_the_lock(run: Run) -> None:
    with controller_lock.hold(run.lock) as lock, subprocess.Popen(["sleep", "1000"]) as process:
        lock.sign(process.pid)
        os.kill(process.pid, signal.SIGSTOP)  # it is resumed for the signal
        stop_run.forward(run, signal.SIGINT)
        assert process.wait() == -signal.SIGINT


def test_a_run_without_a_controller_gets_no_signal(run: Run) -> None:
    stop_run.forward(run, signal.SIGINT)  # there is no lock
    with controller_lock.hold(run.lock) as lock, subprocess.Popen(["sleep", "1000"]) as process:
        lock.sign(process.pid)
        lock.close()
        stop_run.forward(run, signal.SIGKILL)
        assert process.poll() is None
        process.kill()


def test_a_controller_that_cannot_be_seen_is_an_error(run: Run) -> None:
    with controller_lock.hold(run.lock) as lock:
        lock.sign(_NO_PROCESS)
        with pytest.raises(CannotRun, match="is run by a process that cannot be seen from here"):
            stop_run.forward(run, signal.SIGINT)
