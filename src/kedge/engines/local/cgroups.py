"""A control group of a run, where this user may make one: what is in it stays in it, whatever it does to its parents,
session and environment.

It has no limits; it is only a list that the kernel keeps. Version 2 where it is mounted, else a hierarchy of version 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_VERSION_1 = frozenset({"freezer", "pids"})  # hierarchies in which a group changes nothing for its processes
_PROCS = "cgroup.procs"
_KILL = "cgroup.kill"  # of version 2, since Linux 5.14


@contextmanager
def joined(name: str) -> Iterator[Path | None]:
    """This process, and all that it starts, in a new group of that name below its own; None where none can be made.

    At the end this process leaves it, and it is removed, unless something is still in it.
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
    """This user's group of that name, wherever on this machine it is."""
    for mount in _mounts().values():
        for folder, below, _ in os.walk(mount):
            if name in below and _is_ours(Path(folder, name)):
                return Path(folder, name)
    return None


def pids(group: Path) -> list[int]:
    """The processes in a group, and in those below it."""
    found = []
    for folder, _, _ in os.walk(group):
        with suppress(OSError):  # just removed
            found += [int(pid) for pid in Path(folder, _PROCS).read_text().split()]
    return found


def kill(group: Path) -> None:
    """Let the kernel kill all that is in it, also what has become another user's. Nothing happens where it cannot."""
    with suppress(OSError):
        (group / _KILL).write_text("1")


def remove(group: Path) -> None:
    """Remove a group with those below it, as far as they are empty."""
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
    """Where hierarchies are mounted, by what /proc/self/cgroup calls them; version 2 is the empty text."""
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
