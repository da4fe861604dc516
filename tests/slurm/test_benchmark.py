"""The benchmarks of the time from an allocation to the first line of the user's command, and of a login node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kedge.testing.command import TIMEOUT

from .kedge_on_slurm import OnSlurm

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark(kedge: OnSlurm, name: str, *options: str) -> list[str]:
    """The lines of a benchmark's output."""
    argv = [sys.executable, BENCHMARKS / f"{name}.py", *options]
    variables = {**os.environ, **kedge.environment}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_start_of_a_job(kedge: OnSlurm) -> None:
    rows = [line.split() for line in benchmark(kedge, "slurm_start", "2", "--rounds", "1")[1:]]
    assert [row[:2] for row in rows] == [["2", "srun"], ["2", "kedge"]]
    assert all(float(first) <= float(last) for _, _, first, last in rows)


def test_a_login_node(kedge: OnSlurm) -> None:
    lines = benchmark(kedge, "slurm_client", "1")[1:]
    assert [line[:12].strip() for line in lines] == ["run -d", "ps", "ps --all", "show"]
    assert "sbatch" in lines[0]
