"""The benchmark of the time from an allocation to the first line of the user's command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kedge.testing.command import TIMEOUT

from .kedge_on_slurm import OnSlurm

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "slurm_start.py"


def test_it_runs(kedge: OnSlurm) -> None:
    argv = [sys.executable, SCRIPT, "2", "--rounds", "1"]
    variables = {**os.environ, **kedge.environment}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["2", "srun"], ["2", "kedge"]]
    assert all(float(first) <= float(last) for _, _, first, last in rows)
