"""The gate of a gang, with readers as in containers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.engines.container.rendering.render import GATE
from kedge.engines.container.start_gate import StartGate
from kedge.testing.wait import wait_until


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[StartGate]:
    os.mkfifo(tmp_path / GATE)
    made = StartGate()
    yield made
    made.open()


def readers(folder: Path) -> int:
    """How many processes have the gate open, this one not counted."""
    place = os.fspath(folder / GATE)
    found = 0
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                found += any(os.readlink(fd) == place for fd in (process / "fd").iterdir())
            except OSError:
                continue
    return found


def test_a_task_waits_until_all_have_started(gate: StartGate, tmp_path: Path) -> None:
    gate.shut(tmp_path, 2)
    with subprocess.Popen(["cat", tmp_path / GATE]) as task:
        wait_until(lambda: readers(tmp_path) == 1, 60)
        gate.count_start()
        assert task.poll() is None
        gate.count_start()
        assert task.wait(60) == 0


def test_a_gate_that_is_opened_early_lets_all_go_on(gate: StartGate, tmp_path: Path) -> None:
    gate.shut(tmp_path, 2)
    with subprocess.Popen(["cat", tmp_path / GATE]) as task:
        wait_until(lambda: readers(tmp_path) == 1, 60)
        gate.open()
        gate.open()
        assert task.wait(60) == 0


def test_without_a_gang_starts_open_nothing(gate: StartGate) -> None:
    for _ in range(3):
        gate.count_start()
