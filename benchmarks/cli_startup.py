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
from pathlib import Path

from turns import Argv, Cost, cost, in_turns, print_in_starts

EXAMPLES = Path(__file__).parents[1] / "examples"


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    print_in_starts(measure(rounds, *sys.argv[2:]), rounds)


def measure(rounds: int, other: str | None = None) -> dict[str, Cost]:
    """Median costs of `kedge ARGUMENTS`, and of the same with another kedge."""
    cases = {"python -c pass": [sys.executable, "-c", "pass"]}
    cases |= _commands("kedge", str(Path(sys.executable).with_name("kedge")))
    if other:
        cases |= _commands("other", os.path.abspath(other))
    with tempfile.TemporaryDirectory() as state, contextlib.chdir(EXAMPLES):
        run = functools.partial(cost, variables={"XDG_STATE_HOME": state}, quiet=True)
        return in_turns({name: lambda _, argv=argv: run(argv) for name, argv in cases.items()}, rounds)


def _commands(name: str, kedge: str) -> dict[str, Argv]:
    lines = "--version", "--help", "validate hello.yaml", "plan hello.yaml", "ps", "run -q hello.yaml"
    return {f"{name} {line}": [kedge, *line.split()] for line in lines}


if __name__ == "__main__":
    main()
