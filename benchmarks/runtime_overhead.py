"""Measures the runtime around a command that does nothing, compared with a bare shell and a bare interpreter.

    python benchmarks/runtime_overhead.py [ROUNDS]

Prints the median wall time and CPU time (of the process and all its children) in milliseconds. The cases take turns, so
that a busy machine affects all of them equally.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import kedge
from kedge.contract import TaskSpec

RUNTIME = str(Path(kedge.__file__).parent / "runtime")


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 41
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            "bash -c true": lambda _: ["bash", "-c", "true"],
            "python -I -S -c pass": lambda _: [sys.executable, "-I", "-S", "-c", "pass"],
            "runtime around true": lambda n: _attempt(f"{folder}/{n}", "true"),
            "runtime around exit 1": lambda n: _attempt(f"{folder}/{n}-fails", "exit 1"),
        }
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for n in range(rounds):
            for name, command in cases.items():
                samples[name].append(_cost(command(n)))
    print(f"{'case':<24}{'wall ms':>10}{'CPU ms':>10}   medians of {rounds}, CPython {sys.version.split()[0]}")
    for name, pairs in samples.items():
        wall, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name:<24}{wall * 1e3:>10.1f}{cpu * 1e3:>10.1f}")


def _attempt(folder: str, command: str) -> list[str]:
    os.makedirs(folder)
    spec = TaskSpec(
        user="me", job="overhead", job_id="me~overhead", role="worker", task_index=0, job_attempt=0, task_attempt=0,
        uid="0", folder=folder, workdir=f"{folder}/work", environment={}, command=(command,), steps=(),
        host="127.0.0.1", ports={"ssh": [22022], "http": [8080]}, peers_file="",
    )  # fmt: skip
    Path(folder, "spec.json").write_text(json.dumps(spec.to_json()))
    return [sys.executable, "-I", "-S", RUNTIME, f"{folder}/spec.json"]


def _cost(argv: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    begin = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, os.environ)
    _, _, usage = os.wait4(pid, 0)
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
