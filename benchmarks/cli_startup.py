"""Measures commands that do little, compared with a bare interpreter.

    python benchmarks/cli_startup.py [ROUNDS [KEDGE]]

Prints the median wall time and CPU time (of the process and all its children) in milliseconds of the installed `kedge`
command, and both in starts: 1 is what `python -I -S -c pass` takes in the same run. KEDGE is another `kedge` command to
compare with. The cases take turns, so that a busy machine affects all of them equally.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from turns import Argv, Cost, cost, in_turns, print_in_starts

EXAMPLES = Path(__file__).parents[1] / "examples"
LINES = ("--version", "--help", "validate hello.yaml", "plan hello.yaml", "ps", "run -q hello.yaml")


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    print_in_starts(measure(rounds, *map(os.path.abspath, sys.argv[2:3])), rounds)


def measure(rounds: int, other: str | None = None) -> dict[str, Cost]:
    """Median costs of `kedge ARGUMENTS`, and of the same with another kedge."""
    cases = {"python -c pass": [sys.executable, "-c", "pass"]}
    with tempfile.TemporaryDirectory() as state, contextlib.chdir(EXAMPLES):
        log = Path(state, "10-mib.log")
        log.write_text("".join(f"2026-01-02 03:04:05 INFO step {n:07} loss 0.4213\n" for n in range(215_000)))
        lines = [*LINES, f"diagnose {log}"]
        cases |= _commands("kedge", str(Path(sys.executable).with_name("kedge")), lines)
        if other:
            cases |= _commands("other", other, lines)
        run = functools.partial(cost, variables={"XDG_STATE_HOME": state}, quiet=True)
        return in_turns({name: lambda _, argv=argv: run(argv) for name, argv in cases.items()}, rounds)


def _commands(name: str, kedge: str, lines: Iterable[str]) -> dict[str, Argv]:
    return {f"{name} {line.split()[0]}": [kedge, *line.split()] for line in lines}


if __name__ == "__main__":
    main()
