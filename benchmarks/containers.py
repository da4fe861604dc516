"""Measures the start of a job with many tasks in containers, compared with `podman run` (or docker) of the same
command, one after the other and several at once.

    python benchmarks/containers.py [--tasks 20] [--rounds 3] [--image localhost/kedge/busybox:1]

Prints the median seconds until every task's command has run, and their ratio. Both start the same number of containers
of the same image with the same limits on a bridge network; kedge's also run the supervisor and write logs and a report.
Without a registry, `examples/images/build busybox` builds the image.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

JOB = """\
protocolVersion: 2
name: start
type: job
prerequisites: [{{name: image, type: dockerimage, uri: "{image}"}}]
taskRoles:
  worker:
    instances: {tasks}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: ["{command}"]
"""
COMMAND = "echo started"


class Medians(NamedTuple):
    """Seconds: of the tool, one after the other and four at once; of kedge, until all commands have run and in all."""

    alone: float
    four: float
    started: float
    whole: float


def kedge(image: str, tasks: int) -> tuple[float, float]:
    """Seconds from the start of the job's attempt to the end of the last command, and for the whole command line."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "job.yaml")
        job.write_text(JOB.format(image=image, tasks=tasks, command=COMMAND))
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        begin = time.monotonic()
        argv = [sys.executable, "-m", "kedge", "run", "-q", "--engine", "container", str(job)]
        run_or_exit(argv, environment)
        whole = time.monotonic() - begin
        (run,) = Path(folder, "kedge", "jobs").iterdir()
        started = _times(run / "events.jsonl", "attempt-started")
        running = [t for events in run.glob("attempt-0/worker-*/events.jsonl") for t in _times(events, "exited")]
        assert len(running) == tasks
        return max(running) - started[0], whole


def run_or_exit(argv: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command; if it fails, exit with its output."""
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)} exited with {done.returncode}:\n{done.stdout}")


def _times(path: Path, event: str) -> list[float]:
    lines = map(json.loads, path.read_text().splitlines())
    return [datetime.fromisoformat(line["time"]).timestamp() for line in lines if line["event"] == event]


def bare(tool: str, image: str, tasks: int, at_once: int) -> float:
    """Seconds until the same number of containers have run the same command and are removed."""
    limits = ("--rm", "--memory", "64m", "--cpus", "1", "--network", "bridge")

    def run(_number: int) -> None:
        run_or_exit([tool, "run", *limits, image, "sh", "-c", COMMAND])

    begin = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(run, range(tasks)))
    return time.monotonic() - begin


def measure(tool: str, image: str, tasks: int, rounds: int) -> Medians:
    """Medians; kedge and `tool` take turns, because the machine may be busy."""
    kedge(image, 1)  # builds the runtime's bundle
    samples = [
        Medians(bare(tool, image, tasks, 1), bare(tool, image, tasks, 4), *kedge(image, tasks)) for _ in range(rounds)
    ]
    return Medians(*map(statistics.median, zip(*samples, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--image", default="localhost/kedge/busybox:1")
    options = parser.parse_args()
    tool = shutil.which("podman") or "docker"
    alone, some, started, whole = measure(tool, options.image, options.tasks, options.rounds)
    print(f"{options.tasks} containers, medians of {options.rounds} rounds")
    print(f"{tool} run, one after the other   {alone:6.1f} s")
    print(f"{tool} run, four at once          {some:6.1f} s")
    print(f"kedge, until all commands have run        {started:6.1f} s   {started / some:.2f} of four at once")
    print(f"kedge run, the whole command line         {whole:6.1f} s   {whole / some:.2f} of four at once")


if __name__ == "__main__":
    main()
