"""Measures how many tasks per second the local engine starts and ends, with 1, 100 and 500 tasks.

    python benchmarks/start_tasks.py [TASKS...]

Each task prints one line and exits. Wall and CPU time cover the whole `kedge run`, including the tasks. A "start" is
the CPU time of `python -I -S -c pass`, before and after. The last column is what bash alone needs for the command of
one task, in an environment with as many variables: bash 5 needs time in the square of their number, which is five for
each task of the job.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from turns import PYTHON, Argv, cost

JOB = """\
protocolVersion: 2
name: bench
type: job
prerequisites: [{{name: image, type: dockerimage, uri: busybox}}]
taskRoles:
  task:
    instances: {tasks}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 32, gpu: 0}}
    commands: [echo task $PAI_TASK_INDEX]
"""
START = [*PYTHON, "-c", "pass"]
BASH = ["bash", "-c", "echo task $PAI_TASK_INDEX"]
ROUNDS = 20  # of a start, and of bash
VARIABLES = 5  # for each task: its address, and its two ports by two names


class Row(NamedTuple):
    """Figures for one job. Times are in seconds; the last two columns are CPU time of one task in starts."""

    tasks: int
    wall: float
    cpu: float
    starts: float
    bash: float


def main() -> None:
    """Measure and print."""
    print(
        f"{'tasks':>6}{'wall s':>9}{'CPU s':>9}{'tasks/s':>9}{'CPU ms/task':>13}{'starts/task':>13}{'of it bash':>12}"
    )
    for tasks in [int(text) for text in sys.argv[1:]] or [1, 100, 500]:
        row = measure(tasks)
        figures = f"{tasks:>6}{row.wall:>9.2f}{row.cpu:>9.2f}{tasks / row.wall:>9.1f}{row.cpu / tasks * 1000:>13.1f}"
        print(f"{figures}{row.starts:>13.2f}{row.bash:>12.2f}")


def measure(tasks: int) -> Row:
    """Run a job of so many tasks."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "bench.yaml"
        job.write_text(JOB.format(tasks=tasks))
        before = mean_cpu(START, {})
        wall, cpu = cost([sys.executable, "-m", "kedge", "run", "-q", str(job)], {"XDG_STATE_HOME": folder}, quiet=True)
        start = (before + mean_cpu(START, {})) / 2
    bash = mean_cpu(BASH, {f"PAI_HOST_IP_task_{n}": "127.0.0.1" for n in range(VARIABLES * tasks)})
    return Row(tasks, wall, cpu, cpu / tasks / start, bash / start)


def mean_cpu(argv: Argv, variables: dict[str, str]) -> float:
    """Mean CPU seconds of a command."""
    return sum(cost(argv, variables, quiet=True).cpu for _ in range(ROUNDS)) / ROUNDS


if __name__ == "__main__":
    main()
