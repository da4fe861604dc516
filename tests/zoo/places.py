"""Surroundings in which programs fail: full disks, small memory, servers that refuse.

Each is a context manager that gets a folder of its own and yields a Place. Where it cannot be made the test is skipped
and says why.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from kedge.testing.wait import wait_until

from .needs import CGROUP, MEMORY_CGROUPS, MOUNT

KEDGE = (sys.executable, "-m", "kedge")
# Starts kedge like `-m kedge`, but what it starts through the interpreter that the first argument names.
_OTHER_INTERPRETER = "import sys; sys.executable = sys.argv.pop(1); from kedge.cli.main import main; main()"
# The same for the folder of a program, which the second argument names.
_OTHER_PROGRAM = (
    "import runpy, sys; sys.executable = sys.argv.pop(1); runpy.run_path(sys.argv.pop(1), run_name='__main__')"
)
# Puts supervisors, which start from a folder or from a packed file, into a control group; the controller only starts
# them through this script again.
_GROUPING = """#!/bin/sh
case "$3" in
*/runtime|*/runtime/*.pyc) echo $$ > {group}/cgroup.procs ;;
*) shift 2; set -- -I -S -c {program} "$0" "$@" ;;
esac
exec {python} "$@"
"""


class Place(NamedTuple):
    """How to start kedge, and what to add to its environment."""

    kedge: tuple[str, ...] = KEDGE
    environment: Mapping[str, str] = {}


@contextmanager
def anywhere(folder: Path) -> Iterator[Place]:
    """No special surroundings."""
    yield Place()


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[Place]:
    MOUNT.require()
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)
    try:
        yield Place(environment={"DISK": str(disk)})
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def small_disk(folder: Path) -> AbstractContextManager[Place]:
    """$DISK has room for 256 KiB."""
    return _mounted(folder, "size=256k")


def read_only_disk(folder: Path) -> AbstractContextManager[Place]:
    """$DISK is read-only."""
    return _mounted(folder, "size=256k,ro")


@contextmanager
def small_shm(folder: Path) -> Iterator[Place]:
    """/dev/shm has room for 1 MiB, for kedge and everything it starts."""
    MOUNT.require()
    mount = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    yield Place(kedge=("unshare", "--mount", "sh", "-c", mount, "sh", *KEDGE))


@contextmanager
def memory_cgroup(folder: Path, mebibytes: int) -> Iterator[Place]:
    """Every supervisor starts in a memory cgroup of the job, like each task of a container engine."""
    CGROUP.require()
    group = MEMORY_CGROUPS / f"kedge-zoo-{os.getpid()}-{folder.stat().st_ino}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(mebibytes << 20))
    interpreter = folder / "python"
    program = shlex.quote(_OTHER_PROGRAM)
    interpreter.write_text(_GROUPING.format(group=group, program=program, python=sys.executable))
    interpreter.chmod(0o700)
    try:
        yield Place(kedge=(sys.executable, "-c", _OTHER_INTERPRETER, str(interpreter)))
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the cgroup to be empty")
        group.rmdir()
