"""Measures how many tasks per second the local engine starts and ends, with 1, 100 and 500 tasks.

    python benchmarks/start_tasks.py [TASKS...]

Each task prints one line and exits. Wall and CPU time cover the whole `kedge run`, including the tasks. For comparison,
a shell pipeline starts the same number of shells, 2 at a time.
"""

from __future__ import annotations

import os
import resource
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


def main() -> None:
    """Measure and print."""
    counts = [int(text) for text in sys.argv[1:]] or [1, 100, 500]
    print(f"{'tasks':>6}{'wall s':>10}{'CPU s':>10}{'tasks/s':>10}{'xargs sh: s':>14}")
    with tempfile.TemporaryDirectory() as folder:
        for tasks in counts:
            job = Path(folder) / "bench.yaml"
            job.write_text(JOB.format(tasks=tasks))
            environment = {**os.environ, "XDG_STATE_HOME": folder}
            wall, cpu = cost([sys.executable, "-m", "kedge", "run", "-q", str(job)], environment)
            bare, _ = cost(["bash", "-c", f"seq {tasks} | xargs -P 2 -n 1 bash -c 'echo task $0'"], environment)
            print(f"{tasks:>6}{wall:>10.2f}{cpu:>10.2f}{tasks / wall:>10.1f}{bare:>14.2f}")


def cost(argv: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command, including everything it starts."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
