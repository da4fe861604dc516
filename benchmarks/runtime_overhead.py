"""Measures the runtime around a command that does nothing, compared with a bare shell and a bare interpreter.

    python benchmarks/runtime_overhead.py [ROUNDS]

Prints the median wall time and CPU time (of the process and its children), also in starts of a bare interpreter, and
the supervisor's memory. The cases take turns, so that a busy machine affects all of them equally.
"""

from __future__ import annotations

import sys
import tempfile

from attempts import SITE, attempt, measure

from kedge.packed_runtime import FOLDER

CASES = {
    "bash -c true": lambda _: ["bash", "-c", "true"],
    "runtime around true": lambda folder: attempt(folder, "true"),
    "runtime around true, from its folder": lambda folder: attempt(folder, "true", start=FOLDER),
    "runtime around exit 1": lambda folder: attempt(folder, "exit 1", *SITE),
}


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        measure(CASES, int(sys.argv[1]) if len(sys.argv) > 1 else 41, folder)


if __name__ == "__main__":
    main()
