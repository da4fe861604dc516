"""How many processes of this control group the kernel's OOM killer has killed."""

from __future__ import annotations

import os

from kedge.light.types import Iterator, NamedTuple
from kedge.runtime.files import read_file

_ROOT = "/sys/fs/cgroup"


class OomKills(NamedTuple):
    """A reading of the counter: the group's folder, and how many of its processes were killed since it was created."""

    folder: str
    kills: int


def read_oom_kills(root: str = _ROOT, own: str = "/proc/self/cgroup") -> OomKills | None:
    """Read the counter of this process's group (memory.events in cgroup v2, memory.oom_control in v1). None where there
    is no counter, as in the root group of v2."""
    for folder, file in _candidates(root, own):
        try:
            return OomKills(folder, _field(read_file(f"{folder}/{file}"), b"oom_kill"))
        except (OSError, ValueError):
            continue
    return None


def kills_since(before: OomKills) -> int:
    """How many processes have been killed since the reading `before`; 0 when the group no longer exists."""
    for file in ("memory.events", "memory.oom_control"):
        try:
            return max(0, _field(read_file(f"{before.folder}/{file}"), b"oom_kill") - before.kills)
        except (OSError, ValueError):
            continue
    return 0


def holds_only(folder: str, pids: set[int]) -> bool:
    """Whether the group holds no processes but these. If so, its OOM kills were kills of this task."""
    try:
        groups = [each for each, _, _ in os.walk(folder)] or [folder]
        return {int(pid) for each in groups for pid in read_file(f"{each}/cgroup.procs").split()} <= pids
    except OSError:
        return False


def _candidates(root: str, own: str) -> Iterator[tuple[str, str]]:
    """Folders and file names to try, the likeliest first. In a container the own group may be mounted as the root."""
    try:
        lines = read_file(own).decode(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            base, file = f"{root}/memory", "memory.oom_control"
        elif not controllers:
            base, file = root, "memory.events"
        else:
            continue
        within = os.path.normpath(f"{base}/{path}")
        yield within if os.path.isdir(within) else base, file
        # A group that kedge made for the run has no memory counter; its parent does.
        yield os.path.dirname(within), file


def _field(table: bytes, name: bytes) -> int:
    """The number after `name` in a table of names and numbers. ValueError if it is missing (kernels before 4.13)."""
    for line in table.splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    raise ValueError(f"no {name.decode()}")
