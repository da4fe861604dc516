"""Attacks on jobs in containers, and on the processes of the container engine."""

from __future__ import annotations

import signal
import subprocess
from functools import cache
from pathlib import Path

from .. import work
from ..parts import CONTROLLER, ENGINE, ENGINE_SERVICE, SUPERVISOR
from ..rounds import Attack
from ..scene import Scene
from . import stops

_BUILD = Path(__file__).parents[3] / "examples" / "images" / "build"
IMAGE = "localhost/kedge/busybox:1"


@cache
def _ready() -> str:
    """Make the image, once. Skip if containers are not available."""
    try:
        subprocess.run([_BUILD, "busybox"], check=True, capture_output=True)
        subprocess.run(["podman", "run", "--rm", IMAGE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"containers need podman and what makes its images: {error}"
    return ""


def _start(scene: Scene, *, endless: bool = False) -> None:
    scene.kedge.image = IMAGE
    scene.start("run", *work.options(scene), work.endless(scene) if endless else work.job(scene))
    scene.await_parts(SUPERVISOR)


def _killed(scene: Scene) -> None:
    """kill -9 of the controller, a supervisor, conmon or podman."""
    _start(scene)
    scene.pause(2.0)
    scene.observe()
    for kind in scene.random.sample((CONTROLLER, SUPERVISOR, ENGINE, ENGINE_SERVICE), scene.random.randint(1, 2)):
        if found := sorted(scene.parts(kind), key=lambda part: part.process):
            scene.strike(scene.random.choice(found), signal.SIGKILL)


def _killed_by_podman(scene: Scene) -> None:
    """Kill, stop, pause or remove the containers behind kedge's back."""
    _start(scene)
    scene.pause(2.0)
    for name in _containers(scene):
        if scene.chance(0.7):
            harm = scene.random.choice(
                (["kill"], ["kill", "--signal", "TERM"], ["pause"], ["rm", "--force", "--time", "0"])
            )
            scene.struck.add(SUPERVISOR)
            subprocess.run(["podman", *harm, name], capture_output=True, check=False)


def _lost(scene: Scene) -> None:
    """Stop a lost run in containers by many commands at once."""
    _start(scene, endless=True)
    scene.pause(1.0)
    for part in scene.parts(CONTROLLER):
        scene.strike(part, signal.SIGKILL)
    stops.at_once(scene, 4)


def _containers(scene: Scene) -> list[str]:
    found = []
    for run in scene.runs():
        command = ["podman", "ps", "--filter", f"label=kedge.job={run.id}", "--format", "{{.Names}}"]
        found += subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sorted(found)


ATTACKS = (
    Attack("containers: kill -9 of any part", _killed, share=4, engine="container", ready=_ready),
    Attack("containers: podman behind the back", _killed_by_podman, share=3, engine="container", ready=_ready),
    Attack("containers: stops of a lost run", _lost, share=3, engine="container", ready=_ready),
)
