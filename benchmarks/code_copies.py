"""Measures the private copy of the code that every task attempt gets, beside `cp -a`.

    python benchmarks/code_copies.py [--sizes MIB...] [--rounds N] [--folder FOLDER]

The code of 1 MiB is 100 files, that of 1 GiB 1,000 files, each in folders of 20. The copies take turns; each is removed
before the next. `--folder` is on the file system to measure, by default that of temporary files. The last column is
the space that a copy takes on the disk: little where the file system lets it share the blocks of its original.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kedge.own_files import clear
from kedge.runtime.setup import code_copy

SIZES = [1, 1024]
FILES = {False: 100, True: 1000}  # by whether the code is large
LARGE = 100  # MiB


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    print(f"{'MiB':>6}{'files':>7}{'kedge ms':>10}{'CPU ms':>8}{'cp -a ms':>10}{'kedge / cp':>12}{'disk MiB':>10}")
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            print(row(size, Path(folder), options.rounds), flush=True)


def row(size: int, folder: Path, rounds: int) -> str:
    """The figures for code of so many MiB; times are medians."""
    files = FILES[size > LARGE]
    source, target = folder / "source", folder / "target"
    write(source, size << 20, files)
    used = free(folder)
    code_copy.make(str(source), str(target), lambda: False)
    taken = (used - free(folder)) / (1 << 20)
    wall, cpu, copied = [], [], []
    for _ in range(rounds):
        clear(target)
        before = time.process_time()
        wall.append(seconds(lambda: code_copy.make(str(source), str(target), lambda: False)))
        cpu.append(time.process_time() - before)
        clear(target)
        copied.append(seconds(lambda: subprocess.run(["cp", "-a", source, target], check=True)))
    own, theirs, busy = (statistics.median(each) * 1e3 for each in (wall, copied, cpu))
    return f"{size:>6}{files:>7}{own:>10.1f}{busy:>8.1f}{theirs:>10.1f}{own / theirs:>12.2f}{taken:>10.1f}"


def write(folder: Path, size: int, files: int) -> None:
    """Code of so many bytes that cannot be compressed."""
    for number in range(files):
        path = folder / f"package-{number // 20}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size // files))
    sync()


def seconds(do: Callable[[], object]) -> float:
    """How long it takes. What was written before is on the disk already."""
    sync()
    begin = time.perf_counter()
    do()
    return time.perf_counter() - begin


def free(folder: Path) -> int:
    """The free bytes of a file system, when all is written."""
    sync()
    found = os.statvfs(folder)
    return found.f_bfree * found.f_frsize


def sync() -> None:
    """Write what the kernel holds back, so that it does not disturb what is measured next."""
    if sys.platform.startswith("linux"):
        os.sync()


if __name__ == "__main__":
    main()
