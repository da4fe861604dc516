"""Many commands stop, remove, watch and wait for a run at the same time, at any stage of it."""

from __future__ import annotations

import signal

from .. import work
from ..parts import CONTROLLER, SUPERVISOR, TASK
from ..rounds import Attack
from ..scene import Scene

_AT_ONCE = (
    ("stop",), ("stop",), ("stop", "--kill"), ("stop", "--no-wait"), ("rm",), ("rm",),
    ("wait", "--timeout", "5"), ("show",), ("show", "--json"), ("logs",),
)  # fmt: skip


def at_once(scene: Scene, most: int) -> None:
    """Start several commands for every run at the same time."""
    for run in scene.runs():
        for _ in range(scene.random.randint(2, most)):
            args = scene.random.choice(_AT_ONCE)
            if args[0] == "rm":
                scene.removed.add(run.id)
            scene.start(*args, run.id)
    scene.start("ps", "--all")


def _running(scene: Scene) -> None:
    scene.start("run", *work.options(scene), work.job(scene))
    scene.await_parts(CONTROLLER)
    scene.pause(2.0)
    scene.observe()
    at_once(scene, 6)


def _ending(scene: Scene) -> None:
    """Stop a job that ends by itself at the same moment."""
    scene.start("run", *work.options(scene), scene.kedge.job(f"sleep {scene.random.random():.2f}"))
    scene.await_parts(TASK)
    scene.pause(1.5)
    at_once(scene, 6)


def _lost(scene: Scene) -> None:
    scene.start("run", *work.options(scene), work.endless(scene))
    scene.await_parts(CONTROLLER, SUPERVISOR)
    scene.pause(1.5)
    for part in scene.parts(CONTROLLER):
        scene.strike(part, signal.SIGKILL)
    scene.observe()
    at_once(scene, 8)


def _ended(scene: Scene) -> None:
    scene("run", scene.kedge.job("echo done"))
    scene.observe()
    at_once(scene, 6)


ATTACKS = (
    Attack("stops of a run that goes on", _running),
    Attack("stops of a run that ends", _ending, share=20),
    Attack("stops of a lost run", _lost, share=20),
    Attack("stops of a run that has ended", _ended, share=5),
)
