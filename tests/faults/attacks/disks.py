"""Disks that become full at any byte, at any moment."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from .. import work
from ..parts import CONTROLLER
from ..rounds import Attack
from ..scene import NO_ROOM, Scene

_SIZE = 6 << 20  # bytes of the file system
_MOST_LEFT = 3 << 20


def _ready() -> str:
    if os.geteuid() != 0:
        return "mounting a small file system needs root"
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return f"mount is not allowed here: {tried.stderr.decode().strip()}" if tried.returncode else ""


def _small_disk(scene: Scene) -> Path:
    """Put the scene's runs on a small file system; returns a file to fill it with."""
    disk = scene.folder / "state"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "none", disk], check=True)
    scene.on_end.append(lambda: subprocess.run(["umount", "-l", disk], check=True))
    return disk / "filler"


def _fill(scene: Scene, filler: Path) -> None:
    """Leave a random number of bytes, often none."""
    scene.struck.add(NO_ROOM)
    left = int(_MOST_LEFT * scene.random.random() ** 2) if scene.chance(0.7) else 0
    with filler.open("wb") as file, suppress(OSError):  # the job may have used some of the space since
        free = os.statvfs(filler.parent)
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - left))


def _full_before(scene: Scene) -> None:
    """Submit the job with so little space that some of its files cannot be written."""
    filler = _small_disk(scene)
    _fill(scene, filler)
    scene.start("run", *work.options(scene), work.job(scene))
    scene.await_parts(CONTROLLER)
    scene.pause(2.0)
    scene("ps")
    filler.unlink()


def _full_meanwhile(scene: Scene) -> None:
    """Fill the disk while the job runs; some space may become free again."""
    filler = _small_disk(scene)
    scene.start("run", *work.options(scene), work.job(scene))
    scene.await_parts(CONTROLLER)
    scene.pause(1.5)
    _fill(scene, filler)
    scene.pause(1.5)
    for run in scene.runs():
        scene(*scene.random.choice((("show",), ("stop",), ("logs",), ("stop", "--kill"))), run.id)
    filler.unlink()


# Output of a task that finds no space is lost, and kedge reports this.
_EXCUSED = frozenset({"lines are kept"})
ATTACKS = (
    Attack("disk full before the start", _full_before, _EXCUSED, ready=_ready),
    Attack("disk full while it runs", _full_meanwhile, _EXCUSED, share=15, ready=_ready),
)
