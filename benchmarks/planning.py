"""Measures planning a job with many tasks and printing the plan as JSON.

    python benchmarks/planning.py [TASKS...]

Prints wall time and peak memory of `kedge plan --json` for one role of 10, 1,000 and 100,000 tasks, and for 1,000 roles
of 100 tasks each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = """\
protocolVersion: 2
name: bench
type: job
prerequisites: [{name: image, type: dockerimage, uri: busybox}]
taskRoles:
"""
ROLE = """\
  role{number}:
    instances: {tasks}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 32, gpu: 0}}
    commands: [echo task $PAI_TASK_INDEX]
"""


def main() -> None:
    """Measure and print."""
    shapes = [(1, int(text)) for text in sys.argv[1:]] or [(1, 10), (1, 1000), (1, 100_000), (1000, 100)]
    print(f"{'roles':>6}{'tasks':>9}{'wall s':>9}{'peak MiB':>10}{'JSON KiB':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for roles, tasks in shapes:
            job, out = Path(folder) / "bench.yaml", Path(folder) / "plan.json"
            job.write_text(HEAD + "".join(ROLE.format(number=n, tasks=tasks) for n in range(roles)))
            wall, peak = plan(job, out)
            print(f"{roles:>6}{roles * tasks:>9}{wall:>9.2f}{peak / 1024:>10.0f}{out.stat().st_size / 1024:>10.0f}")


def plan(job: Path, out: Path) -> tuple[float, int]:
    """Wall seconds and peak memory (KiB) of planning `job` into `out`."""
    begin = time.perf_counter()
    argv = [sys.executable, "-m", "kedge", "plan", "--json", str(job)]
    with out.open("wb") as file, subprocess.Popen(argv, stdout=file, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, argv
    return wall, usage.ru_maxrss


if __name__ == "__main__":
    main()
