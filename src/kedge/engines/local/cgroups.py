"""The control group of a run, if this user may make one: a process stays in it even if it changes its parent, session
or environment.

It sets no limits; it is only a list of processes that the kernel keeps. Version 2 if it is mounted, otherwise a
hierarchy of version 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_VERSION_1 = frozenset({"freezer", "pids"})  # hierarchies in which a new group has no effect on its processes
_PROCS = "cgroup.procs"
_KILL = "cgroup.kill"  # version 2 only, since Linux 5.14


@contextmanager
def joined(name: str) -> Iterator[Path | None]:
    """A context in which this process and all that it starts are in a new group of that name below its own; None if the
    group cannot be made.

    At the end this process leaves the group, and the group is removed unless other processes are still in it.
    """
    own, group = _make(name)
    try:
        yield group
    finally:
        if own and group:
            with suppress(OSError):
                _enter(own)
            remove(group)


def find(name: str) -> Path | None:
    """This user's group of that name, anywhere on this machine."""
    for mount in _mounts().values():
        for folder, below, _ in os.walk(mount):
            if name in below and _is_ours(Path(folder, name)):
                return Path(folder, name)
    return None


def pids(group: Path) -> list[int]:
    """The processes in a group and in the groups below it."""
    found = []
    for folder, _, _ in os.walk(group):
        with suppress(OSError):  # just removed
            found += [int(pid) for pid in Path(folder, _PROCS).read_text().split()]
    return found


def kill(group: Path) -> None:
    """Let the kernel kill all processes in a group, even those that now belong to another user. Does nothing if the
    kernel cannot."""
    with suppress(OSError):
        (group / _KILL).write_text("1")


def remove(group: Path) -> None:
    """Remove a group and those below it, if they are empty."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            os.rmdir(folder)


def _is_ours(group: Path) -> bool:
    try:
        return group.stat().st_uid == os.geteuid()
    except OSError:  # just removed
        return False


def _make(name: str) -> tuple[Path | None, Path | None]:
    """This process's group, and a new one below it that it has joined."""
    mounts = _mounts()
    for line in _lines(_OWN):
        _, kind, path = line.split(":", 2)
        if kind not in mounts:
            continue
        own = Path(f"{mounts[kind]}/{path}")
        with suppress(OSError):
            (own / name).mkdir()
            return own, _joined(own / name)
    return None, None


def _joined(group: Path) -> Path:
    try:
        _enter(group)
    except OSError:
        group.rmdir()
        raise
    return group


def _enter(group: Path) -> None:
    (group / _PROCS).write_text("0")


def _mounts() -> dict[str, str]:
    """The mount points of hierarchies, by their name in /proc/self/cgroup; that of version 2 is empty."""
    found = {}
    for line in _lines(_MOUNTS):
        head, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ")[:3]
        if kind == "cgroup2":
            found[""] = head.split(" ")[4]
        elif kind == "cgroup" and (named := _VERSION_1 & set(options.split(","))):
            found[",".join(sorted(named))] = head.split(" ")[4]
    return dict(sorted(found.items()))


def _lines(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(errors="surrogateescape").splitlines()
    return []
