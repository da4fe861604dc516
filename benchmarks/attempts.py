"""What the benchmarks of the supervisor share: attempts of one task, what they cost, and the supervisor's memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import re2
from turns import PYTHON, Argv, Cost, cost, in_turns, print_in_starts

from kedge import packed_runtime
from kedge.contract import TaskSpec

SITE = ("--site", str(Path(re2.__file__).parents[1]))  # with it, the cause of a failure is searched for
MAX_MIB = 16  # the goal for the memory of a supervisor


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


def measure(cases: Mapping[str, Callable[[str], Argv]], rounds: int, folder: str) -> dict[str, Cost]:
    """Run the cases in turns, each with a new folder, and print medians."""

    def case(number: int, argv: Callable[[str], Argv]) -> Callable[[int], Cost]:
        return lambda n: cost(argv(f"{folder}/{n}-{number}"), may_fail=True)

    found = in_turns({name: case(number, argv) for number, (name, argv) in enumerate(cases.items())}, rounds)
    print_in_starts(found, rounds)
    cost(attempt(f"{folder}/memory", "grep VmHWM /proc/$PPID/status"))
    mib = int(Path(folder, "memory", "user-stdout", "current").read_text().split()[1]) / 1024
    print(f"the supervisor's memory at its peak: {mib:.1f} MiB (goal: at most {MAX_MIB})")
    return found
