"""The gate at which the tasks of a gang wait for each other; events through a FIFO; a real /usr/local/pai."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from kedge.testing.wait import wait_until


@pytest.fixture
def gate(tmp_path: Path) -> str:
    os.mkfifo(tmp_path / "gate")
    return str(tmp_path / "gate")


def waits(attempt) -> bool:
    """Whether the supervisor waits only for the gate: its environment is ready."""
    return (attempt.folder / "pai" / "runtime.d" / "runtime_env.sh").exists()


def test_the_command_waits_until_the_gate_is_released(attempt, gate):
    holder = os.open(gate, os.O_RDWR)
    attempt.start("echo through", "--gate", gate)
    wait_until(lambda: waits(attempt))
    assert [event["event"] for event in attempt.events] == ["starting"]
    os.close(holder)
    assert attempt.wait() == 0
    assert attempt.stream("user-stdout") == b"through\n"


def test_a_stop_at_the_gate_ends_the_task_before_its_command(attempt, gate):
    holder = os.open(gate, os.O_RDWR)
    attempt.start("echo through", "--gate", gate)
    wait_until(lambda: waits(attempt))
    attempt.signal(signal.SIGTERM)
    assert attempt.wait() == 143
    os.close(holder)
    assert attempt.report["stopped_by"] == "TERM"
    assert "running" not in [event["event"] for event in attempt.events]


@pytest.mark.parametrize("path", ["gate", "nothing"])
def test_a_gate_without_a_holder_is_open(attempt, gate, path):
    assert attempt.run("true", "--gate", str(Path(gate).with_name(path))) == 0


def test_events_go_to_a_fifo_that_is_read(attempt, tmp_path):
    os.mkfifo(tmp_path / "status")
    reader = os.open(tmp_path / "status", os.O_RDWR | os.O_NONBLOCK)
    assert attempt.run("true", "--status", str(tmp_path / "status")) == 0
    heard = [json.loads(line)["event"] for line in os.read(reader, 1 << 16).splitlines()]
    os.close(reader)
    assert heard == [event["event"] for event in attempt.events]


def test_a_fifo_without_a_reader_is_ignored(attempt, tmp_path):
    os.mkfifo(tmp_path / "status")
    assert attempt.run("true", "--status", str(tmp_path / "status")) == 0


def test_an_existing_openpai_folder_is_used(attempt, tmp_path):
    pai = tmp_path / "usr-local-pai"
    pai.mkdir()
    attempt.spec = attempt.spec._replace(pai_dir=str(pai))
    assert attempt.run("echo $RUNTIME_LOG_PIPE") == 0
    assert attempt.stream("user-stdout").decode() == f"{pai}/runtime.d/runtime_log_pipe\n"
    assert not (attempt.folder / "pai").exists()
    assert not (pai / "logs").exists()
