"""Measures the cost of a failure: the runtime around commands that fail, with and without the search for the cause.

    python benchmarks/failure_overhead.py [ROUNDS]

Prints the median wall and CPU time (of the process and its children), also in starts of a bare interpreter, and the
supervisor's memory. The cases take turns. Without google-re2 (no --site) there is no search for the cause, but the
other evidence is collected and the termination message is written.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from attempts import SITE, attempt, measure
from turns import Argv

LINE = "[2026-11-20 07:00:00] INFO trainer: epoch 3 step 1200 loss 0.4213 lr 1e-4 throughput 812.3 samples/s"
CASES = {
    "true": ("true", SITE),
    "exit 1, by its code alone": ("exit 1", ()),
    "exit 1": ("exit 1", SITE),
    "a Python traceback": ("cat {base}/trace; exit 1", SITE),
    "1 MiB of log": ("cat {base}/log-1; exit 1", SITE),
    "10 MiB of log, by code": ("cat {base}/log-10; exit 1", ()),
    "10 MiB of log": ("cat {base}/log-10; exit 1", SITE),
}
TRACE = """Traceback (most recent call last):
  File "train.py", line 88, in step
ModuleNotFoundError: No module named 'apex'
"""


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as base:
        Path(base, "trace").write_text(TRACE)
        for mib in (1, 10):
            count = (mib << 20) // (len(LINE) + 9)
            Path(base, f"log-{mib}").write_text("".join(f"{LINE} {n:07}\n" for n in range(count)))
        cases = {name: functools.partial(_attempt, base, name) for name in CASES}
        measure(cases, int(sys.argv[1]) if len(sys.argv) > 1 else 21, base)


def _attempt(base: str, name: str, folder: str) -> Argv:
    command, options = CASES[name]
    return attempt(folder, command.format(base=base), *options)


if __name__ == "__main__":
    main()
