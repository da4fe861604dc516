"""One round: an attack from its seed to its result."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kedge.states import FINAL

from .invariants import INVARIANTS
from .scene import ANSWER_SEC, Scene

LONGEST_SEC = 300
THE_SUITE = "the fault suite itself"


@dataclass(frozen=True, slots=True)
class Attack:
    """`act` attacks a scene; what it starts may still run when it returns. `excused` are the invariants that cannot
    hold after it; `share` is its weight among the attacks. `ready` returns why it cannot be tried here."""

    name: str
    act: Callable[[Scene], object]
    excused: frozenset[str] = frozenset()
    share: int = 10
    engine: str = "local"
    ready: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a round: `broke` lists violations by the name of the invariant; `folder` is then kept."""

    attack: str
    seed: int
    seconds: float
    broke: dict[str, list[str]]
    folder: Path

    def __str__(self) -> str:
        told = [f"    {name}: {text}" for name, texts in self.broke.items() for text in texts]
        held = "held " if not self.broke else "BROKE"
        kept = [f"    kept in {self.folder}"] if self.broke else []
        return "\n".join([f"{held} {self.seconds:5.1f} s  ATTACK='{self.attack}' SEED={self.seed}", *told, *kept])


def play(attack: Attack, seed: int, folder: Path, cache: Path | None = None) -> Result:
    """Run one round in a new folder below `folder`, which is deleted if all invariants hold. Caches of kedge and Python
    are in `cache`, or next to it."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f"{seed}-", dir=folder))
    scene = Scene(place, random.Random(f"{attack.name} {seed}"), cache or folder / "cache", attack.engine)
    broke: dict[str, list[str]] = {}
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST_SEC)
    try:
        attack.act(scene)
        settle(scene)
        for name, check in INVARIANTS.items():
            if name not in attack.excused and (found := list(check(scene))):
                broke[name] = found
    except Exception:  # it must be reported, and the next round must follow
        broke[THE_SUITE] = [traceback.format_exc()]
    finally:
        signal.alarm(0)
        scene.close()
    if not broke:
        shutil.rmtree(place)
    return Result(attack.name, seed, time.monotonic() - began, broke, place)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"the round takes more than {LONGEST_SEC} s")


def settle(scene: Scene) -> None:
    """Wait a while for runs to end; then stop those that do not, and end those that are lost."""
    end = time.monotonic() + scene.random.choice((0.2, 1.0, 3.0))
    while time.monotonic() < end and (_at_work(scene) or _open(scene)):
        time.sleep(0.05)
    scene.observe()
    asked: set[str] = set()
    give_up = time.monotonic() + ANSWER_SEC
    while (_at_work(scene) or _open(scene) - asked) and time.monotonic() < give_up:
        for run in sorted(_open(scene) - asked):
            scene("stop", *(["--kill"] if scene.chance(0.4) else []), run)
            asked.add(run)
        time.sleep(0.05)
    for run in sorted(_open(scene)):  # the run was lost during its stop
        scene("stop", "--kill", run)
    for command in scene.commands:
        scene.finish(command)


def _at_work(scene: Scene) -> bool:
    return any(command.code is None for command in scene.commands)


def _open(scene: Scene) -> set[str]:
    return {run.id for run in scene.runs() if scene.state(run) not in FINAL}
