"""How long a user waits for the first line of a job, as the benchmark measures it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kedge.testing.command import TIMEOUT

from .kedge_on_kubernetes import OnKubernetes

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kubernetes_start.py"


def test_benchmark_of_the_start(kedge: OnKubernetes) -> None:
    argv = [sys.executable, BENCHMARK, kedge.image, "--rounds", "1"]
    done = subprocess.run(argv, env=kedge.environment, capture_output=True, text=True, timeout=TIMEOUT)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert "ratio" in done.stdout
