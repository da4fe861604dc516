"""Measures the wall time of commands that do little, compared with a bare interpreter.

    python benchmarks/cli_startup.py [ROUNDS]

Prints the median wall time in milliseconds of the installed `kedge` command. The cases take turns, so that a busy
machine affects all of them equally.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HELLO = Path(__file__).parents[1] / "examples" / "hello.yaml"


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    kedge = str(Path(sys.executable).with_name("kedge"))
    cases = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "kedge --version": [kedge, "--version"],
        "kedge --help": [kedge, "--help"],
        "kedge validate hello.yaml": [kedge, "validate", str(HELLO)],
        "kedge plan hello.yaml": [kedge, "plan", str(HELLO)],
        "kedge ps": [kedge, "ps"],
        "kedge run -q hello.yaml": [kedge, "run", "-q", str(HELLO)],
    }
    samples: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "XDG_STATE_HOME": state}
        for _ in range(rounds):
            for name, argv in cases.items():
                begin = time.perf_counter()
                subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
                samples[name].append(time.perf_counter() - begin)
    print(f"{'case':<28}{'wall ms':>10}   medians of {rounds}, CPython {sys.version.split()[0]}")
    for name, walls in samples.items():
        print(f"{name:<28}{statistics.median(walls) * 1e3:>10.0f}")


if __name__ == "__main__":
    main()
