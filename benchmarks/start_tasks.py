"""Measures how many tasks per second the local engine starts and ends, with 1, 100 and 500 tasks.

    python benchmarks/start_tasks.py [TASKS...]

Each task prints one line and exits. Wall and CPU time cover the whole `kedge run`, including the tasks. A "start" is
the CPU time of `python -I -S -c pass`, before and after. The last column is what bash alone needs for the command of
one task, in an environment with as many variables: bash 5 needs time in the square of their number, which is five for
each task of the job.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
START = [sys.executable, "-I", "-S", "-c", "pass"]
BASH = ["bash", "-c", "echo task $PAI_TASK_INDEX"]
ROUNDS = 20  # of a start, and of bash
VARIABLES = 5  # for each task: its address, and its two ports by two names


def main() -> None:
    """Measure and print."""
    counts = [int(text) for text in sys.argv[1:]] or [1, 100, 500]
    print(
        f"{'tasks':>6}{'wall s':>9}{'CPU s':>9}{'tasks/s':>9}{'CPU ms/task':>13}{'starts/task':>13}{'of it bash':>12}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for tasks in counts:
            job = Path(folder) / "bench.yaml"
            job.write_text(JOB.format(tasks=tasks))
            before = mean_cpu(START, {})
            wall, cpu = cost(
                [sys.executable, "-m", "kedge", "run", "-q", str(job)], {**os.environ, "XDG_STATE_HOME": folder}
            )
            start = (before + mean_cpu(START, {})) / 2
            bash = mean_cpu(BASH, {f"PAI_HOST_IP_task_{n}": "127.0.0.1" for n in range(VARIABLES * tasks)})
            each = cpu / tasks
            row = f"{tasks:>6}{wall:>9.2f}{cpu:>9.2f}{tasks / wall:>9.1f}{each * 1000:>13.1f}"
            print(f"{row}{each / start:>13.2f}{bash / start:>12.2f}")


def mean_cpu(argv: list[str], variables: dict[str, str]) -> float:
    """Mean CPU seconds of a command."""
    return sum(cost(argv, {**os.environ, **variables})[1] for _ in range(ROUNDS)) / ROUNDS


def cost(argv: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command, including everything it starts."""
    begin = time.perf_counter()
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, argv
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
