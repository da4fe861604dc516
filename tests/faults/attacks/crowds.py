"""Many runs at the same time."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from kedge.contract import REPORT_FILE, SPEC_FILE

from .. import work
from ..rounds import Attack
from ..scene import Scene

_PORTS = 20  # of each task
_HERE = "here"  # a file that a task makes when it has begun
_LONGEST_SEC = 15.0


def _many_runs(scene: Scene) -> None:
    """Several runs compete for ports while other commands watch; no port may be assigned twice."""
    role = {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"web": _PORTS}}, "instances": 2}
    seconds = 0.5 + scene.random.random()
    job = scene.kedge.job([f"touch $PAI_LOG_DIR/{_HERE}", f"sleep {seconds:.2f}"], roles={"worker": role})
    started = [scene.start("run", *scene.random.choice(([], ["-d"], ["-q"])), job) for _ in range(4)]
    while any(command.code is None for command in started):
        scene("ps")
        _no_port_twice(scene)


def _no_port_twice(scene: Scene) -> None:
    """Check that no two tasks that run at this moment share a port."""
    begun = [file.parent for file in scene.kedge.jobs.glob(f"*/attempt-*/*/{_HERE}")]
    ports = {folder: _ports(folder) for folder in begun if not (folder / REPORT_FILE).exists()}
    running = [
        folder for folder in ports if not (folder / REPORT_FILE).exists()
    ]  # all of these were running a moment ago
    given = Counter(port for folder in running for port in ports[folder])
    if twice := [port for port, count in given.items() if count > 1]:
        scene.broken.append(f"ports were assigned twice: {twice}, to {running}")


def _ports(folder: Path) -> list[int]:
    return [port for numbers in json.loads((folder / SPEC_FILE).read_bytes())["ports"].values() for port in numbers]


def _swarm(scene: Scene) -> None:
    """A run of many short tasks that fail and are retried, while other commands watch it all the time."""
    job = work.job(scene, ends=("true", "exit 3", "kill -9 $$"), largest=4)
    command = scene.start("run", job)
    end = time.monotonic() + _LONGEST_SEC
    while command.code is None and time.monotonic() < end:
        scene(
            *scene.random.choice(
                (("ps", "--json"), ("show", "job"), ("logs", "job"), ("wait", "--timeout", "1", "job"))
            )
        )
        scene.pause(0.3)


ATTACKS = (
    Attack("many runs that want ports", _many_runs, share=5),
    Attack("runs that are watched all the time", _swarm, share=5),
)
