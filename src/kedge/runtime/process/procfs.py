"""The processes below this one, read from /proc."""

from __future__ import annotations

import os

from kedge.contract import USER_SCRIPT
from kedge.light import signal
from kedge.light.types import Iterable, Iterator, NamedTuple
from kedge.runtime.files import read_file


class ProcessStat(NamedTuple):
    """One process. `group` is its process group. `start_time` is in clock ticks since boot (proc(5), field 22 of stat);
    with the pid it identifies the process even after the pid is reused."""

    pid: int
    parent: int
    state: str
    start_time: int
    name: str
    group: int

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
    return ProcessStat(int(number), int(fields[1]), fields[0], int(fields[19]), name, int(fields[2]))


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


def forks(pid: int) -> list[int]:
    """The process itself, and its children that run what it runs."""
    children = [each.pid for each in descendants(pid) if each.parent == pid]
    return [pid, *(child for child in children if _command_line(child) == _command_line(pid))]


def _command_line(pid: int) -> bytes:
    try:
        return read_file(f"/proc/{pid}/cmdline")
    except OSError:
        return b""


def command_processes(pid: int, number: int) -> list[ProcessStat]:
    """The processes of a command that signal `number` is meant for. `pid` is that of its shell: the shell alone if it
    handles the signal or is another program now (`exec`); else also its subshells and the programs that they run,
    because a shell does not pass signals on. bash always handles SIGINT while it waits for a program."""
    shell = process(pid)
    if shell is None:
        return []
    alone = number != signal.SIGINT and not has_default_action(pid, number)
    return [shell] if alone or not _is_a_shell(pid) else [shell, *_below_shell(pid, descendants(pid))]


def programs(shell: int) -> list[ProcessStat]:
    """The programs that the shell of a command and its subshells run now, in the order of their start. The process
    itself if it is no shell any more."""
    if not _is_a_shell(shell):
        return [own] if (own := process(shell)) else []
    found = [each for each in _below_shell(shell, descendants(shell)) if not _is_a_shell(each.pid)]
    return sorted(found, key=lambda each: (each.start_time, each.pid))


def _below_shell(shell: int, below: list[ProcessStat]) -> Iterator[ProcessStat]:
    for each in below:
        if each.parent == shell:
            yield each
            if _is_a_shell(each.pid):
                yield from _below_shell(each.pid, below)


def is_alive(known: ProcessStat) -> bool:
    """Whether a process still runs; a zombie does not."""
    now = process(known.pid)
    return now is not None and now.identity == known.identity and now.state not in "ZX"


def _is_a_shell(pid: int) -> bool:
    """Whether a process still runs the script of a command, and has not replaced itself by another program."""
    try:
        return os.fsencode(USER_SCRIPT) in read_file(f"/proc/{pid}/cmdline").split(b"/")[-1]
    except OSError:
        return False


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
