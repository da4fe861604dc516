"""Measures the time from the start of an allocation to the first line of the user's command on a Slurm cluster, with 2
and 40 tasks, beside a bare `srun` of the same command in an allocation of its own.

    python benchmarks/slurm_start.py [TASKS...] [--rounds N]

Needs a cluster whose commands are on PATH (SLURM_CONF), with the folder of temporary files and the user's cache on a
file system that its nodes share. Clocks of the nodes must agree. `first` is the first line of any task, `last` the
first line of the last task; in seconds, the median of the rounds. Slurm gives the start of an allocation in whole
seconds, so it counts from when slurmd makes the log of the batch script. The bundle is built before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

COMMAND = "date +%s.%N"
JOB = """\
protocolVersion: 2
name: bench
type: job
prerequisites: [{{name: image, type: dockerimage, uri: busybox}}]
taskRoles:
  task:
    instances: {tasks}
    completion: {{minSucceededInstances: {tasks}}}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: ["{command}"]
"""
BARE = """\
#!/bin/sh
#SBATCH --ntasks={tasks} --cpus-per-task=1 --mem-per-cpu=64M --output={folder}/out
srun --mpi=none {command} >{folder}/lines
"""


class Figures(NamedTuple):
    """Seconds from the start of the batch script to the first line of the first and of the last task."""

    first: float
    last: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", type=int, default=[2, 40])
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if not shutil.which("sbatch"):
        sys.exit("there is no Slurm here: sbatch is not on PATH")
    print(f"{'tasks':>6}{'':>8}{'first s':>9}{'last s':>9}")
    for tasks in chosen.tasks:
        for name, measure in (("srun", bare), ("kedge", with_kedge)):
            with tempfile.TemporaryDirectory() as folder:
                found = [measure(tasks, Path(folder, str(number))) for number in range(chosen.rounds)]
            first, last = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"{tasks:>6}{name:>8}{first:>9.2f}{last:>9.2f}")


def bare(tasks: int, folder: Path) -> Figures:
    """A batch job with one srun."""
    folder.mkdir()
    script = folder / "script.sh"
    script.write_text(BARE.format(tasks=tasks, folder=folder, command=COMMAND))
    subprocess.run(["sbatch", "--wait", "--quiet", script], check=True, stdout=subprocess.PIPE)
    return figures(born(folder / "out"), (folder / "lines").read_text().split(), tasks)


def with_kedge(tasks: int, folder: Path) -> Figures:
    """The same by `kedge run`."""
    folder.mkdir()
    job = folder / "bench.yaml"
    job.write_text(JOB.format(tasks=tasks, command=COMMAND))
    environment = os.environ | {"XDG_STATE_HOME": str(folder)}
    argv = [sys.executable, "-m", "kedge", "run", "-q", "--engine", "slurm", str(job)]
    subprocess.run(argv, check=True, env=environment, stdout=subprocess.PIPE)
    (run,) = (folder / "kedge" / "jobs").glob("bench-*")
    lines = [text for log in run.glob("attempt-0/task-*/user-stdout/current") for text in log.read_text().split()]
    return figures(born(run / "cluster" / "batch.log"), lines, tasks)


def born(path: Path) -> float:
    """When the log of a batch script was made."""
    said = subprocess.run(["stat", "--format=%.W", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    if not float(said):
        sys.exit(f"the file system of {path} does not keep when files are made: set TMPDIR to a folder on another one")
    return float(said)


def figures(begin: float, lines: list[str], tasks: int) -> Figures:
    """The figures of a job that began then, of what its tasks printed."""
    times = sorted(map(float, lines))
    assert len(times) == tasks, lines
    return Figures(times[0] - begin, times[-1] - begin)


if __name__ == "__main__":
    main()
