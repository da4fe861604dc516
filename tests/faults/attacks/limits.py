"""Low resource limits, and standard streams that are closed, full or slow."""

from __future__ import annotations

import os
import resource
from functools import partial

from .. import work
from ..parts import CONTROLLER
from ..rounds import Attack
from ..scene import NO_ROOM, Scene

_COMMANDS = (("ps",), ("ps", "--json"), ("show", "job"), ("logs", "job"), ("stop", "job"))


def _limit(kind: int, value: int) -> None:
    resource.setrlimit(kind, (value, value))


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _few_files(scene: Scene) -> None:
    """A low limit of open files, for the run and for the commands that watch it."""
    low = partial(_limit, resource.RLIMIT_NOFILE, scene.random.randint(8, 64))
    scene.start("run", *work.options(scene), work.job(scene), before=low)
    scene.await_parts(CONTROLLER)
    if scene.runs():
        scene.start(*scene.random.choice(_COMMANDS), before=low)


def _small_files(scene: Scene) -> None:
    """A low file size limit, as set by `ulimit -f`."""
    scene.struck.add(NO_ROOM)
    low = partial(_limit, resource.RLIMIT_FSIZE, scene.random.choice((0, 100, 2_000, 30_000, 1 << 20, 1 << 21)))
    scene.start("run", *work.options(scene), work.job(scene), before=low)


def _closed_streams(scene: Scene) -> None:
    """Start commands with some standard streams closed."""
    closed = [fd for fd in (0, 1, 2) if scene.chance(0.5)]
    scene.start("run", *work.options(scene), work.job(scene), before=lambda: _close(closed))


def _full_output(scene: Scene) -> None:
    """Start commands whose stdout or stderr cannot be written."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        stdout, stderr = scene.random.choice(((full, None), (None, full), (full, full)))
        scene.start("run", *work.options(scene), work.job(scene), stdout=stdout, stderr=stderr)
    finally:
        os.close(full)


def _slow_reader(scene: Scene) -> None:
    """Read the output of the live view not at all, or only for a while."""
    reader, writer = os.pipe()
    say = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo much output, more than any terminal takes at once: $i; done"
    job = scene.kedge.job([say, "sleep 0.3", say], roles={"a": {"instances": 2}})
    scene.start("run", job, stdout=writer)
    os.close(writer)
    scene.await_parts(CONTROLLER)
    scene.pause(2.0)
    if scene.chance(0.5):
        os.read(reader, 1 << 16)
        scene.pause(1.0)
    if scene.chance(0.3):
        for run in scene.runs():
            scene("stop", run.id)
    os.close(reader)


ATTACKS = (
    Attack("few open files", _few_files),
    Attack("small files only", _small_files, frozenset({"lines are kept"})),
    Attack("closed standard streams", _closed_streams),
    Attack("output that cannot be written", _full_output),
    Attack("a slow reader that goes", _slow_reader),
)
