"""Measures the cost of a failure: the runtime around commands that fail, with and without the search for the cause.

    python benchmarks/failure_overhead.py [ROUNDS]

Prints the median wall and CPU time (of the process and all its children) in milliseconds. The cases take turns. Without
google-re2 (no --site) there is no search for the cause, but the other evidence is collected and the termination message
is written.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import re2

import kedge
from kedge.contract import TaskSpec

RUNTIME = str(Path(kedge.__file__).parent / "runtime")
SITE = ("--site", str(Path(re2.__file__).parents[1]))
LINE = "[2026-11-20 07:00:00] INFO trainer: epoch 3 step 1200 loss 0.4213 lr 1e-4 throughput 812.3 samples/s"
CASES = {
    "true": ("true", SITE),
    "exit 1, by its code alone": ("exit 1", ()),
    "exit 1": ("exit 1", SITE),
    "a Python traceback": ("cat trace; exit 1", SITE),
    "1 MiB of log": ("cat log-1; exit 1", SITE),
    "10 MiB of log, by code": ("cat log-10; exit 1", ()),
    "10 MiB of log": ("cat log-10; exit 1", SITE),
}
TRACE = """Traceback (most recent call last):
  File "train.py", line 88, in step
ModuleNotFoundError: No module named 'apex'
"""


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "trace").write_text(TRACE)
        for mib in (1, 10):
            count = (mib << 20) // (len(LINE) + 9)
            Path(folder, f"log-{mib}").write_text("".join(f"{LINE} {n:07}\n" for n in range(count)))
        for n in range(rounds):
            for number, (name, (command, options)) in enumerate(CASES.items()):
                samples[name].append(_cost([*_attempt(folder, f"{n}-{number}", command), *options]))
    print(f"{'case':<28}{'wall ms':>10}{'CPU ms':>10}   medians of {rounds}, CPython {sys.version.split()[0]}")
    for name, pairs in samples.items():
        wall, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name:<28}{wall * 1e3:>10.1f}{cpu * 1e3:>10.1f}")


def _attempt(base: str, name: str, command: str) -> list[str]:
    folder = f"{base}/{name}"
    os.makedirs(folder)
    spec = TaskSpec(
        user="me", job="overhead", job_id="me~overhead", role="worker", task_index=0, job_attempt=0, task_attempt=0,
        uid="0", folder=folder, workdir=base, environment={}, command=(command,), steps=(), host="127.0.0.1",
        ports={}, peers_file="",
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
