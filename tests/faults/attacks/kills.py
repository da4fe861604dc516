"""Signals to any part of a run at any moment."""

from __future__ import annotations

import signal
from collections.abc import Callable

from kedge import processes

from .. import work
from ..parts import COMMAND, CONTROLLER, KEEPER, SUPERVISOR, TASK, Part
from ..rounds import Attack
from ..scene import Scene

_DEADLY = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT)
_ANY = (*_DEADLY, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGCHLD, signal.SIGALRM)
_LONGEST_SEC = 2.5  # before the attack; by then all kinds of jobs have ended


def _strikes(numbers: tuple[int, ...], *kinds: str, most: int = 1) -> Callable[[Scene], None]:
    """An attack that sends random ones of these signals to random parts of these kinds, at most `most` times."""

    def act(scene: Scene) -> None:
        scene.start("run", *work.options(scene), work.job(scene))
        scene.await_parts(scene.random.choice(kinds))
        for _ in range(scene.random.randint(1, most)):
            scene.pause(_LONGEST_SEC)
            scene.observe()
            for part in _some(scene, *kinds):
                scene.strike(part, scene.random.choice(numbers))

    return act


def _some(scene: Scene, *kinds: str) -> list[Part]:
    """One or several parts of these kinds, if there are any. The kind is chosen first, because there are few
    supervisors and many task processes."""
    found = sorted(scene.parts(*kinds), key=lambda part: part.process)
    if not found:
        return []
    if scene.chance(0.2):
        return scene.random.sample(found, scene.random.randint(1, len(found)))
    kind = scene.random.choice(sorted({part.kind for part in found}))
    return [scene.random.choice([part for part in found if part.kind == kind])]


def _everything(scene: Scene) -> None:
    """kill -9 of everything at once, as by an out-of-memory killer or an impatient administrator."""
    scene.start("run", *work.options(scene), work.job(scene))
    scene.await_parts(scene.random.choice((CONTROLLER, SUPERVISOR, TASK)))
    scene.pause(_LONGEST_SEC)
    scene.observe()
    for part in scene.parts():
        scene.strike(part, signal.SIGKILL)


def _suspended(scene: Scene) -> None:
    """Suspend some parts for a while, or until a stop."""
    scene.start("run", *work.options(scene), work.job(scene))
    scene.await_parts(CONTROLLER)
    scene.pause(1.5)
    held = _some(scene, CONTROLLER, SUPERVISOR, TASK)
    for part in held:
        scene.strike(part, signal.SIGSTOP)
    scene.pause(1.0)
    if scene.chance(0.5):
        for run in scene.runs():
            scene("stop", *scene.random.choice(([], ["--kill"])), run.id)
    for part in held:
        processes.send(part.process, signal.SIGCONT)


ATTACKS = (
    Attack(
        "kill -9 of any part",
        _strikes((signal.SIGKILL,), CONTROLLER, KEEPER, SUPERVISOR, TASK, COMMAND, most=3),
        share=30,
    ),
    Attack("kill -9 of the controller", _strikes((signal.SIGKILL,), CONTROLLER)),
    Attack("kill -9 of supervisors", _strikes((signal.SIGKILL,), SUPERVISOR, most=3)),
    Attack("kill -9 of everything", _everything),
    Attack("signals to the controller", _strikes(_ANY, CONTROLLER, KEEPER, COMMAND, most=4)),
    Attack("signals to supervisors", _strikes(_ANY, SUPERVISOR, most=4)),
    Attack("signals to tasks and hooks", _strikes(_ANY, TASK, most=4)),
    Attack("parts that are suspended", _suspended),
)
