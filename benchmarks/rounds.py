"""Runs commands in turns and measures them, with so few imports that a bundle's Python can run it in a container.

    python rounds.py CASES

CASES is a file with {"rounds": N, "cases": {name: {"argv": [...], "spec": a TaskSpec or null}}}. A case with a TaskSpec
gets a new folder for each run. Prints the medians {name: [wall seconds, CPU seconds of the process and its children]}.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(path: str) -> None:
    """Measure and print."""
    with open(path, encoding="utf-8") as file:
        wanted = json.load(file)
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in wanted["cases"]}
    for n in range(wanted["rounds"]):
        for number, (name, case) in enumerate(wanted["cases"].items()):
            folder = f"{os.path.dirname(path)}/{n}-{number}"
            spec = [_spec(folder, case["spec"])] if case["spec"] else []
            samples[name].append(_cost([*case["argv"], *spec]))
    print(
        json.dumps({name: [_median(column) for column in zip(*pairs, strict=True)] for name, pairs in samples.items()})
    )


def _spec(folder: str, spec: dict[str, object]) -> str:
    os.mkdir(folder)
    with open(f"{folder}/spec.json", "w", encoding="utf-8") as file:
        json.dump(spec | {"folder": folder, "workdir": f"{folder}/work"}, file)
    return f"{folder}/spec.json"


def _cost(argv: list[str]) -> tuple[float, float]:
    begin = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - begin
    assert status == 0, argv
    return wall, usage.ru_utime + usage.ru_stime


def _median(numbers: tuple[float, ...]) -> float:
    return sorted(numbers)[len(numbers) // 2]


if __name__ == "__main__":
    main(sys.argv[1])
