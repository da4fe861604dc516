"""Measures resolving the prerequisites of a job.

    python benchmarks/resolution.py [REPEATS]

A role lists 4 items of a marketplace in a folder. Each item has a template variable, an inherited value and a hook, and
requires two items of the next level: 64 items in 16 levels. Prints median wall and CPU milliseconds inside one process
(on a busy machine, compare CPU time), with a lock file and everything in the cache: from the folder and offline; then
including parsing the job file, and `kedge plan` as a whole process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kedge.resolve import lock_file
from kedge.resolve.model import Inputs
from kedge.resolve.resolve import resolve
from kedge.spec.parse import load

LEVELS, WIDTH = 16, 4
ITEM = """\
name: {name}
type: data
plugin: cmd
root{level}: /data/{level}
template_variables:
  - {{name: path, type: path, default: /dataset}}
require: [{require}]
callbacks:
  - event: taskStarts
    commands:
      - mkdir -p {{{{ path }}}}
      - cp -r <% this.root{level} %>/* {{{{ path }}}}
      - echo <% this.root15 %>
"""
JOB = """\
protocolVersion: 2
name: bench
type: job
prerequisites: [{{name: image, type: dockerimage, uri: busybox}}]
taskRoles:
  worker:
    prerequisites: [{listed}]
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 32, gpu: 0}}
    commands: [echo done]
"""


def main() -> None:
    """Measure and print."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 51
    with tempfile.TemporaryDirectory() as folder:
        file, market = write(Path(folder))
        inputs = Inputs("me", marketplace=str(market), cache=f"{folder}/cache/kedge/items")
        offline = Inputs("me", offline=True, cache=inputs.cache)
        job, _ = load(file)
        found = resolve(job, inputs)
        lock_file.save(found.lock.path, found.lock.new)
        print(f"{len(found.requirements.entries)} items")
        show("from the folder", repeats, lambda: resolve(job, inputs))
        show("offline, from the cache", repeats, lambda: resolve(job, offline))
        show("offline, with parsing the job", repeats, lambda: resolve(load(file)[0], offline))
        environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
        argv = [sys.executable, "-m", "kedge", "plan", "--offline", file]
        show("kedge plan --offline", max(1, repeats // 5), lambda: subprocess.run(
            argv, env=environment, check=True, capture_output=True))  # fmt: skip


def write(folder: Path) -> tuple[str, Path]:
    """Write the job file and the marketplace; returns both paths."""
    market = folder / "market"
    market.mkdir()
    for level in range(LEVELS):
        below = range(2) if level + 1 < LEVELS else ()
        for number in range(WIDTH):
            require = ", ".join(f"marketplace://name/i{level + 1}-{(number + n) % WIDTH}" for n in below)
            name = f"i{level}-{number}"
            (market / f"{name}.yaml").write_text(ITEM.format(name=name, level=level, require=require))
    file = folder / "bench.yaml"
    file.write_text(JOB.format(listed=", ".join(f"marketplace://name/i0-{n}" for n in range(WIDTH))))
    return str(file), market


def show(label: str, repeats: int, run: Callable[[], object]) -> None:
    """Print the median wall and CPU time of `run`."""
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        cpus.append((time.process_time() - cpu) * 1e3)
        walls.append((time.perf_counter() - wall) * 1e3)
    print(f"{label:<30} wall {statistics.median(walls):6.1f}, CPU here {statistics.median(cpus):6.1f}")


if __name__ == "__main__":
    main()
