"""Measures the speed of a diagnosis: the scan alone, and a whole process from start to answer.

    python benchmarks/diagnosis_speed.py [--repeat N] [--sizes 0.1 1 10]

For each log size (MiB), measures a log without a match, one with a match at the end, and one of near misses (every line
contains a constant text of some rule), with the packaged rules and with ten times as many. Prints medians of wall and
CPU time in milliseconds, the wall time in starts (one is that of `python -I -S -c pass`, measured in turns in the same
run), and the peak memory of the process in MiB.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import re2
from turns import PYTHON, START, Cost, cost, in_turns

from kedge.diagnose.log.log_text import Log
from kedge.diagnose.rules import compiled_rules, scan
from kedge.diagnose.rules.compiled_rules import CompiledRules
from kedge.diagnose.rules.packaged import content
from kedge.diagnose.rules.ruleset import RuleSet

# What the runtime does after a task has failed, including imports, with the rules in compiled form.
PROCESS = """
import sys; sys.path[:0] = [{source!r}, {packages!r}]
from kedge.diagnose.decide.classify import classify
from kedge.diagnose.model import Evidence
from kedge.diagnose.rules import compiled_rules
from kedge.diagnose.rules.ruleset import RuleSet
rules = RuleSet(compiled_rules.parse(open({rules!r}, "rb").read()))
answer = classify(Evidence((("log", open({log!r}, "rb").read()),), 1), rules)
print(answer.cause)
"""


def ordinary(number: int) -> bytes:
    return b"2024-01-02 03:04:%02d,%03d INFO trainer.py:%d epoch %d step %d loss=%.5f lr=1e-4 tokens/s %d\n" % (
        number % 60, number % 997, number % 313, number // 1000, number, 1 / (number + 1), number % 7919,
    )  # fmt: skip


def logs(size: int, rules: list[Any]) -> dict[str, bytes]:
    """The three kinds of log, each of `size` bytes."""
    chosen = random.Random(1)
    texts = [text.encode() for rule in chosen.sample(rules, 40) for _, texts, _ in rule[8] for text in texts[:1]]
    clean = b"".join(map(ordinary, range(size // 90)))[:size]
    near = b"".join(b"worker %d: %s?\n" % (n, chosen.choice(texts)[:-1]) for n in range(size // 20))[:size]
    match = clean[:-200] + b"\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    return {"no match": clean, "match": match, "near misses": near}


def ten_times(rules: list[Any]) -> list[Any]:
    """Ten copies of the rules, each with different texts."""
    copies = []
    for n in range(10):
        for rule in rules:
            patterns = [[f"{p}(?:{n})?", [f"{t[:6]}{n}{t[6:]}" for t in texts], case] for p, texts, case in rule[8]]
            copies.append([f"{rule[0]}-{n}", *rule[1:8], patterns])
    return copies


def peak(command: list[str]) -> float:
    """The peak memory of a process in MiB."""
    script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
    script += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    return float(subprocess.run([sys.executable, "-c", script, *command], capture_output=True, check=True).stdout)


class Row(NamedTuple):
    """Figures for one log and one set of rules: milliseconds of the scan, milliseconds and starts of the process with
    its CPU time, and MiB."""

    scan: float
    wall: float
    cpu: float
    starts: float
    memory: float


def row(rules: CompiledRules, text: bytes, folder: Path, repeat: int) -> Row:
    """The figures for one log and one set of rules."""
    (folder / "log").write_bytes(text)
    (folder / "rules.json").write_bytes(compiled_rules.text(rules))
    places = {"source": Path(scan.__file__).parents[3], "packages": Path(re2.__file__).parents[1]}
    files = {"rules": folder / "rules.json", "log": folder / "log"}
    process = [*PYTHON, "-c", PROCESS.format(**{name: str(path) for name, path in (places | files).items()})]
    found = in_turns({"scan": lambda _: scanned(text, rules), "process": lambda _: cost(process, quiet=True)}, repeat)
    whole, start = found["process"], found[START]
    return Row(
        found["scan"].wall * 1e3, whole.wall * 1e3, whole.cpu * 1e3, whole.wall / start.wall, peak(process)
    )  # fmt: skip


def scanned(text: bytes, rules: CompiledRules) -> Cost:
    """The cost of a scan in this process."""
    begin = time.perf_counter()
    scan.scan(Log("log", text), RuleSet(rules))
    return Cost(time.perf_counter() - begin, 0.0)


def measure(folder: Path, sizes: Iterable[float], repeat: int) -> Iterator[tuple[int, float, str, Row]]:
    """(rules, MiB of log, kind of log, figures), as they are measured."""
    packaged = content()
    rules = [json.loads(rule) for rule in packaged.rules]
    for chosen in (rules, ten_times(rules)):
        compiled = compiled_rules.of(chosen, packaged.causes)
        for size in sizes:
            for kind, text in logs(int(size * (1 << 20)), chosen).items():
                yield len(chosen), size, kind, row(compiled, text, folder, repeat)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the diagnosis.")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--sizes", type=float, nargs="*", default=[0.1, 1, 10])
    options = parser.parse_args()
    print(f"{'rules':>6} {'MiB':>5} {'log':12} {'scan':>8} {'process wall':>13} {'CPU':>7} {'starts':>7} {'memory':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for rules, size, kind, found in measure(Path(folder), options.sizes, options.repeat):
            figures = f"{found.scan:8.1f} {found.wall:13.1f} {found.cpu:7.1f} {found.starts:7.1f} {found.memory:7.1f}"
            print(f"{rules:6} {size:5} {kind:12} {figures}")


if __name__ == "__main__":
    main()
