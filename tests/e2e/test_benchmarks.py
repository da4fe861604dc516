"""Every benchmark runs, at its smallest size: a number that nobody can measure again is worth nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.testing.command import TIMEOUT

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALLEST = {
    "bundle": ["1"],
    "cli_startup": ["1"],
    "containers": ["--tasks", "1", "--rounds", "1"],
    "diagnosis_accuracy": ["."],
    "diagnosis_speed": ["--repeat", "1", "--sizes", "0.1"],
    "failure_overhead": ["1"],
    "log_throughput": ["1", ".", "3"],
    "planning": ["10"],
    "resolution": ["1"],
    "runtime_overhead": ["1"],
    "start_tasks": ["1"],
}
HELPERS = {"attempts", "rounds"}  # used by other benchmarks


def test_every_benchmark_is_run() -> None:
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == SMALLEST.keys() | HELPERS


@pytest.mark.parametrize("name", SMALLEST)
def test_benchmark(name: str, tmp_path: Path, shared: Path, request: pytest.FixtureRequest) -> None:
    if name == "containers":
        request.getfixturevalue("image")("busybox")
    (tmp_path / "job.log").write_text("MemoryError\n")
    (tmp_path / "labels.tsv").write_text(
        "file\texit_code\troot_cause_class\troot_cause_line\tconfidence\njob.log\t1\thost_oom_alloc\tMemoryError\thigh\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared / "cache"), "XDG_STATE_HOME": str(tmp_path)}
    argv = [sys.executable, BENCHMARKS / f"{name}.py", *SMALLEST[name]]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert any(character.isdigit() for character in done.stdout)


def test_a_benchmark_of_containers_says_why_it_failed(tmp_path: Path, shared: Path, image: object) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(shared / "cache"), "XDG_STATE_HOME": str(tmp_path)}
    argv = [sys.executable, BENCHMARKS / "containers.py", "--tasks", "1", "--image", "localhost/kedge/none-such:1"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode != 0
    assert "localhost/kedge/none-such:1" in done.stderr
    assert "Traceback" not in done.stderr
