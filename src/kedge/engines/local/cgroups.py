"""The control group of a run, if this user may make one: a process stays in it even if it changes its parent, session
or environment.

It sets no limits; it is only a list of processes that the kernel keeps. Version 2 if it is mounted, otherwise a
hierarchy of version 1.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kedge import keeper

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_VERSION_1 = frozenset({"freezer", "pids"})  # hierarchies in which a new group has no effect on its processes
_PROCS = "cgroup.procs"
_KILL = "cgroup.kill"  # version 2 only, since Linux 5.14


@contextmanager
def joining(name: str) -> Iterator[Callable[[], None]]:
    """A context in which this process joins a new group of that name below its own, if the group can be made. This
    takes the kernel a while, in which this process can prepare more; call the function before it starts a process.

    At the end the group is removed unless other processes are still in it. It is left to the keeper if there is one:
    leaving the group first would take as long.
    """
    made: list[tuple[Path, Path]] = []
    thread = threading.Thread(target=lambda: made.extend(_make(name)), daemon=True)

    def join() -> None:
        if thread.is_alive():
            thread.join()

    try:
        thread.start()
    except RuntimeError:  # there are too many
        thread.run()
    try:
        yield join
    finally:
        join()
        for own, group in made:
            _leave(own, group)


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


def add(group: Path, pid: int) -> None:
    """Move a process into a group. OSError."""
    (group / _PROCS).write_text(str(pid))


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


def _leave(own: Path, group: Path) -> None:
    remove(group)  # those below it
    if not keeper.remove_at_end(str(group)):
        with suppress(OSError):
            _enter(own)
        remove(group)


def _make(name: str) -> Iterator[tuple[Path, Path]]:
    """This process's group, and a new one below it that it has joined; nothing if it cannot make one."""
    mounts = _mounts()
    for line in _lines(_OWN):
        _, kind, path = line.split(":", 2)
        if kind not in mounts:
            continue
        own = Path(f"{mounts[kind]}/{path}")
        with suppress(OSError):
            (own / name).mkdir()
            yield own, _joined(own / name)
            return


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
