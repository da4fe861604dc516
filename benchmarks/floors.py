"""Compares the speed of today with the project's goals, and warns of what has become slower than a goal allows.

    python benchmarks/floors.py [--record LABEL] [--containers N] [--short]

Every figure is a ratio to something measured in turns in the same run, so that machines can be compared; MARGIN is for
noise. A warning does not fail the command. --record adds a column to the history in docs/benchmarks.md. --containers
adds jobs of N containers, which take minutes. --short measures so little that only the table is worth reading.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import attempts
import cli_startup
import containers
import diagnosis_speed
import log_throughput
import runtime_overhead
import start_tasks
from turns import START, Cost

MARGIN = 1.3
HISTORY = Path(__file__).parents[1] / "docs" / "benchmarks.md"
IMAGE = "localhost/kedge/busybox:1"


class Floor(NamedTuple):
    """The goal for a ratio; `at_least` if a larger one is better."""

    goal: float
    at_least: bool = False

    def allows(self, value: float) -> bool:
        """Whether the value reaches the goal, or misses it by less than the noise."""
        return value >= self.goal / MARGIN if self.at_least else value <= self.goal * MARGIN


FLOORS = {
    "the runtime around `true`, starts": Floor(3),
    "the runtime around `exit 1`, starts": Floor(6),
    "`kedge --help`, starts": Floor(10),
    "`kedge validate`, starts": Floor(14),
    "`kedge plan`, starts": Floor(14),
    "`kedge ps`, starts": Floor(12),
    "`kedge run`, starts": Floor(26),
    "`kedge diagnose` of 10 MiB, starts": Floor(16),
    "a local job of many tasks, starts of CPU time a task": Floor(7.1),
    "120-byte lines, throughput to that of `cat > file`": Floor(0.9, at_least=True),
    "64 KiB writes, throughput to that of `cat > file`": Floor(0.85, at_least=True),
    "ten secrets masked, throughput to that without": Floor(0.5, at_least=True),
    "diagnosis of 10 MiB, no match, starts": Floor(8),
    "diagnosis of 10 MiB, near misses, starts": Floor(20),
    "diagnosis of 10 MiB, ten times the rules, starts": Floor(15),
    "containers until all commands run, to `podman run` four at once": Floor(0.5),
}


def main() -> None:
    """Measure, print and perhaps record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", metavar="LABEL")
    parser.add_argument("--containers", type=int, metavar="N", default=0)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    found = {}
    for name, value in measured(options.containers, options.short):
        floor, found[name] = FLOORS[name], value
        verdict = "" if floor.allows(value) else "WARNING: slower than the goal allows"
        print(
            f"{name:<64}{value:>7.2f}   goal {'>=' if floor.at_least else '<='} {floor.goal:<5} {verdict}", flush=True
        )
    if options.record:
        HISTORY.write_text(recorded(HISTORY.read_text(), options.record, found))


def measured(count: int, short: bool) -> Iterator[tuple[str, float]]:
    """The ratios by their names in FLOORS."""
    rounds = 1 if short else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with contextlib.redirect_stdout(io.StringIO()):
            found = attempts.measure(runtime_overhead.CASES, rounds, name)
        yield "the runtime around `true`, starts", _starts(found, "runtime around true")
        yield "the runtime around `exit 1`, starts", _starts(found, "runtime around exit 1")
        found = cli_startup.measure(rounds)
        for command in ("--help", "validate", "plan", "ps", "run"):
            yield f"`kedge {command}`, starts", _starts(found, f"kedge {command}")
        yield "`kedge diagnose` of 10 MiB, starts", _starts(found, "kedge diagnose")
        yield "a local job of many tasks, starts of CPU time a task", start_tasks.measure(2 if short else 200).starts
        # More at once depends on how fast the machine finds memory for the files.
        yield from _output(folder, (1 if short else 256) << 20, 1 if short else 7)
        yield from _diagnosis(folder, 0.1 if short else 10.0, 1 if short else 5)
    if tool := count and shutil.which("podman"):
        found = containers.measure(tool, IMAGE, count, 1 if short else 3)
        yield "containers until all commands run, to `podman run` four at once", found.started / found.four


def _starts(found: dict[str, Cost], name: str) -> float:
    return found[name].wall / found[START].wall


def _output(folder: Path, total: int, rounds: int) -> Iterator[tuple[str, float]]:
    plain, masked, bare = "kedge runtime", "kedge runtime, 10 secrets", log_throughput.CAT
    small = log_throughput.compare(folder, len(log_throughput.LINE), total, rounds)
    yield "120-byte lines, throughput to that of `cat > file`", small[bare].wall / small[plain].wall
    large = log_throughput.compare(folder, log_throughput.LARGE, total, rounds)
    yield "64 KiB writes, throughput to that of `cat > file`", large[bare].wall / large[plain].wall
    yield "ten secrets masked, throughput to that without", large[plain].wall / large[masked].wall


def _diagnosis(folder: Path, size: float, rounds: int) -> Iterator[tuple[str, float]]:
    rows = list(diagnosis_speed.measure(folder, [size], rounds))
    few = min(rules for rules, *_ in rows)
    for rules, _, kind, row in rows:
        if rules == few and kind != "match":
            yield f"diagnosis of 10 MiB, {kind}, starts", row.starts
        elif kind == "no match":
            yield "diagnosis of 10 MiB, ten times the rules, starts", row.starts


def recorded(page: str, label: str, found: dict[str, float]) -> str:
    """The page with one more column in its table of the history."""
    lines = page.splitlines()
    (first,) = (n for n, line in enumerate(lines) if line.startswith("| ratio |"))
    cells = {"ratio": label, "---": "---", **{name: f"{value:.2f}" for name, value in found.items()}}
    for n, line in enumerate(lines[first:], first):
        if not line.startswith("|"):
            break
        lines[n] += f" {cells.get(line.split('|')[1].strip(), '')} |"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
