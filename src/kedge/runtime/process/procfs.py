"""The processes below this one, read from /proc."""

from __future__ import annotations

import os

from kedge.light.types import Iterable, NamedTuple
from kedge.runtime.files import read_file


class ProcessStat(NamedTuple):
    """One process. `start_time` is in clock ticks since boot (proc(5), field 22 of stat); with the pid it identifies
    the process even after the pid is reused."""

    pid: int
    parent: int
    state: str
    start_time: int
    name: str

    @property
    def identity(self) -> tuple[int, int]:
        """The pid and the start time, which never change."""
        return self.pid, self.start_time

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})"


def process(pid: int | str) -> ProcessStat | None:
    """Read one process. None when it no longer exists."""
    try:
        text = read_file(f"/proc/{pid}/stat").decode(errors="replace")
    except OSError:
        return None
    # The name is in parentheses and may itself contain spaces and parentheses.
    head, _, tail = text.rpartition(")")
    number, _, name = head.partition(" (")
    fields = tail.split()
    return ProcessStat(int(number), int(fields[1]), fields[0], int(fields[19]), name)


def descendants(ancestor: int) -> list[ProcessStat]:
    """All processes below `ancestor` without zombies, parents before children."""
    children: dict[int, list[ProcessStat]] = {}
    for each in filter(None, map(process, _pids())):
        children.setdefault(each.parent, []).append(each)
    result: list[ProcessStat] = []
    queue = [ancestor]
    for pid in queue:
        below = children.get(pid, [])
        queue += [child.pid for child in below]
        result += [child for child in below if child.state not in "ZX"]
    return result


def holders(processes: Iterable[ProcessStat], fds: Iterable[int]) -> list[ProcessStat]:
    """Those of `processes` that hold the other end of one of the pipes `fds` of this process."""
    pipes = {os.readlink(f"/proc/self/fd/{fd}") for fd in fds}
    return [each for each in processes if pipes & _open_files(each.pid)]


def has_default_action(pid: int, number: int) -> bool:
    """Whether a process neither catches nor ignores nor blocks signal `number`."""
    try:
        lines = read_file(f"/proc/{pid}/status").decode(errors="replace").splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))]
    return not any(mask >> (number - 1) & 1 for mask in masks)


def _pids() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # without /proc only process groups can be signalled
        return []


def _open_files(pid: int) -> set[str]:
    folder = f"/proc/{pid}/fd"
    try:
        return {os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}
    except OSError:  # the process is gone or belongs to another user
        return set()
