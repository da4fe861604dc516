"""What the benchmarks of the supervisor share: attempts of one task, what they cost, and a table of it."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kedge import packed_runtime
from kedge.contract import TaskSpec

PYTHON = (sys.executable, "-I", "-S")
START = "python -I -S -c pass"  # the unit of the column `starts`
MAX_MIB = 16  # the goal for the memory of a supervisor

Argv = list[str]


def attempt(folder: str, command: str, *options: str, start: Path | None = None) -> Argv:
    """What starts the supervisor of a task in a new folder, as the local engine does it."""
    os.makedirs(folder)
    spec = TaskSpec(
        user="me", job="overhead", job_id="me~overhead", role="worker", task_index=0, job_attempt=0, task_attempt=0,
        uid="0", folder=folder, workdir=f"{folder}/work", environment={}, command=(command,), steps=(),
        host="127.0.0.1", ports={"ssh": [22022], "http": [8080]}, peers_file="",
    )  # fmt: skip
    Path(folder, "spec.json").write_text(json.dumps(spec.to_json()))
    return [*PYTHON, str(start or packed_runtime.start_file(os.environ)), f"{folder}/spec.json", *options]


def measure(cases: Mapping[str, Callable[[str], Argv]], rounds: int, folder: str) -> None:
    """Run the cases in turns, each with a new folder, and print medians. `starts` compares with START in this run."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in (START, *cases)}
    for n in range(rounds):
        for number, name in enumerate(samples):
            argv = [*PYTHON, "-c", "pass"] if name == START else cases[name](f"{folder}/{n}-{number}")
            samples[name].append(_cost(argv))
    units = [statistics.median(column) for column in zip(*samples[START], strict=True)]
    heads = f"{'wall ms':>10}{'starts':>8}{'CPU ms':>10}{'starts':>8}"
    print(f"{'case':<36}{heads}   medians of {rounds}, CPython {sys.version.split()[0]}")
    for name, pairs in samples.items():
        costs = [statistics.median(column) for column in zip(*pairs, strict=True)]
        columns = (f"{each * 1e3:>10.1f}{each / unit:>8.2f}" for each, unit in zip(costs, units, strict=True))
        print(f"{name:<36}{''.join(columns)}")
    command = "grep VmHWM /proc/$PPID/status"
    argv = attempt(f"{folder}/memory", command)
    _cost(argv)
    mib = int(Path(folder, "memory", "user-stdout", "current").read_text().split()[1]) / 1024
    print(f"the supervisor's memory at its peak: {mib:.1f} MiB (goal: at most {MAX_MIB})")


def _cost(argv: Argv) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    begin = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, os.environ)
    _, _, usage = os.wait4(pid, 0)
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime
