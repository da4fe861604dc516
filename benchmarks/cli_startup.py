"""Measures commands that do little, compared with a bare interpreter.

    python benchmarks/cli_startup.py [ROUNDS [KEDGE]]

Prints the median wall time and CPU time (of the process and all its children) in milliseconds of the installed `kedge`
command, and both in starts: 1 is what `python -I -S -c pass` takes in the same run. KEDGE is another `kedge` command to
compare with. The cases take turns, so that a busy machine affects all of them equally.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
START = "python -I -S -c pass"


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    cases = {START: [sys.executable, "-I", "-S", "-c", "pass"], "python -c pass": [sys.executable, "-c", "pass"]}
    cases |= _commands("kedge", str(Path(sys.executable).with_name("kedge")))
    if len(sys.argv) > 2:
        cases |= _commands("other", sys.argv[2])
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    os.chdir(EXAMPLES)
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        for _ in range(rounds):
            for name, argv in cases.items():
                samples[name].append(_cost(argv))
    _print({name: _medians(pairs) for name, pairs in samples.items()}, rounds)


def _commands(name: str, kedge: str) -> dict[str, list[str]]:
    lines = "--version", "--help", "validate hello.yaml", "plan hello.yaml", "ps", "run -q hello.yaml"
    return {f"{name} {line}": [kedge, *line.split()] for line in lines}


def _cost(argv: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one run, whose output is dropped."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    begin = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - begin
    assert status == 0, argv
    return wall, usage.ru_utime + usage.ru_stime


def _medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    wall, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
    return wall, cpu


def _print(found: dict[str, tuple[float, float]], rounds: int) -> None:
    wall_start, cpu_start = found[START]
    columns = f"{'wall ms':>10}{'starts':>8}{'CPU ms':>10}{'starts':>8}"
    print(f"{'case':<28}{columns}   medians of {rounds}, CPython {sys.version.split()[0]}")
    for name, (wall, cpu) in found.items():
        print(f"{name:<28}{wall * 1e3:>10.0f}{wall / wall_start:>8.1f}{cpu * 1e3:>10.0f}{cpu / cpu_start:>8.1f}")


if __name__ == "__main__":
    main()
