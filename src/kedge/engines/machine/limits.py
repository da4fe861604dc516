"""Compares the limits of this machine with what a job needs, before anything starts."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kedge.claims import ports as free_ports
from kedge.errors import CannotRun

# What kedge itself needs; the processes and threads of the user's program are unknown and not counted.
FILES_PER_JOB = 64
FILES_PER_TASK = 1  # while a task starts; the files of its ports are counted as ports
PROCESSES_PER_JOB = 8
PROCESSES_PER_TASK = 3  # supervisor, shell, the user's program

FILES = "open files"
PROCESSES = "processes"
PORTS = "TCP ports"

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


class Limit(NamedTuple):
    """How many more of a kind are available, and which limit sets this."""

    kind: str
    free: int
    source: str


def check(tasks: int, ports: int) -> None:
    """CannotRun, naming every limit that is too low, if the tasks and ports do not fit on this machine."""
    if short := shortages(needs(tasks, ports), machine()):
        raise CannotRun("this machine is too small for the job:\n" + "\n".join(f"  {line}" for line in short))


def needs(tasks: int, ports: int) -> dict[str, int]:
    """How many of each kind a job needs."""
    return {
        FILES: FILES_PER_JOB + tasks * FILES_PER_TASK + ports,
        PROCESSES: PROCESSES_PER_JOB + tasks * PROCESSES_PER_TASK,
        PORTS: ports,
    }


def shortages(needed: Mapping[str, int], limits: Sequence[Limit]) -> list[str]:
    """One line for each limit that is too low."""
    return [
        f"{needed[limit.kind]} {limit.kind} are needed, {max(0, limit.free)} are left ({limit.source})"
        for limit in limits
        if limit.free < needed[limit.kind]
    ]


def machine() -> list[Limit]:
    """The current limits of this machine, user and cgroup."""
    return [
        Limit(FILES, _open_files(), "hard limit of RLIMIT_NOFILE, ulimit -Hn"),
        Limit(PORTS, free_ports.available(), "outside /proc/sys/net/ipv4/ip_local_port_range"),
        *_process_limits(),
    ]


def _open_files() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    kernel_maximum = int((_PROC / "sys/fs/nr_open").read_text())
    return kernel_maximum if hard == resource.RLIM_INFINITY else hard


def _process_limits() -> Iterator[Limit]:
    """The limits of processes. In all of them threads count as processes."""
    running = int((_PROC / "loadavg").read_text().split()[3].partition("/")[2])
    for name in ("pid_max", "threads-max"):
        highest = int((_PROC / "sys/kernel" / name).read_text())
        yield Limit(PROCESSES, highest - running, f"kernel.{name} is {highest}, {running} are running")
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:  # the superuser is exempt
        own = _own_threads()
        yield Limit(PROCESSES, soft - own, f"RLIMIT_NPROC, ulimit -u, is {soft}, {own} are running")
    yield from cgroup_limits((_PROC / "self/cgroup").read_text(), _CGROUPS)


def _own_threads() -> int:
    """The number of this user's threads on the whole machine."""
    count = 0
    for entry in os.scandir(_PROC):
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"{entry.path}/task"))
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is hidden
            continue
    return count


def cgroup_limits(membership: str, mount: Path) -> Iterator[Limit]:
    """The pids limits of a process's cgroup and all its parents, in cgroup v1 and v2.

    `membership` is the text of /proc/PID/cgroup. Parents outside a container's own hierarchy are not visible below
    `mount` and are skipped.
    """
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids"):
            for root in (mount / "pids",) if controllers else (mount, mount / "unified"):
                yield from _pids_limits(root, path)


def _pids_limits(root: Path, path: str) -> Iterator[Limit]:
    inner = root / path.lstrip("/")
    for folder in (inner, *inner.parents):
        if not folder.is_relative_to(root):
            return
        highest, current = folder / "pids.max", folder / "pids.current"
        if highest.is_file() and (text := highest.read_text().strip()) != "max":
            running = int(current.read_text())
            yield Limit(PROCESSES, int(text) - running, f"{highest} is {text}, {running} are running")
