"""What the benchmarks share: the costs of commands that take turns, so that a busy machine affects all of them equally,
and the unit that makes machines comparable: a start of a bare interpreter in the same run."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

Argv = list[str]
PYTHON = [sys.executable, "-I", "-S"]
START = "python -I -S -c pass"  # one start


class Cost(NamedTuple):
    """Seconds of one run; CPU time includes all child processes."""

    wall: float
    cpu: float


def cost(
    argv: Argv, variables: Mapping[str, str] = MappingProxyType({}), quiet: bool = False, may_fail: bool = False
) -> Cost:
    """The cost of a command, which gets these variables, too; `quiet` drops its output."""
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    begin = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, {**os.environ, **variables}, file_actions=null if quiet else [])
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - begin
    assert may_fail or status == 0, argv
    return Cost(wall, usage.ru_utime + usage.ru_stime)


def in_turns(cases: Mapping[str, Callable[[int], Cost]], rounds: int) -> dict[str, Cost]:
    """The median cost of every case, and of START. A case gets the number of the round."""
    all_cases = {START: lambda _: cost([*PYTHON, "-c", "pass"]), **cases}
    samples: dict[str, list[Cost]] = {name: [] for name in all_cases}
    for n in range(rounds):
        for name, case in all_cases.items():
            samples[name].append(case(n))
    return {name: Cost(*map(statistics.median, zip(*each, strict=True))) for name, each in samples.items()}


def print_in_starts(found: Mapping[str, Cost], rounds: int) -> None:
    """Print a table of milliseconds and starts."""
    heads = f"{'wall ms':>10}{'starts':>8}{'CPU ms':>10}{'starts':>8}"
    print(f"{'case':<36}{heads}   medians of {rounds}, CPython {sys.version.split()[0]}")
    for name, costs in found.items():
        columns = (f"{each * 1e3:>10.1f}{each / unit:>8.2f}" for each, unit in zip(costs, found[START], strict=True))
        print(f"{name:<36}{''.join(columns)}")
