"""Finds the processes that a scene's commands have started, and classifies them.

A process may leave its session, parent and environment; then its working directory or command line identifies it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kedge import processes
from kedge.processes import Process

MARK = "KEDGE_FAULT_ROUND"  # in the environment of a scene's commands

CONTROLLER = "controller"
KEEPER = "keeper"  # the process above a controller
SUPERVISOR = "supervisor"
WARM_PARENT = "warm parent"  # of supervisors
COMMAND = "command"  # a kedge command that is not the controller: a viewer, a stop
TASK = "task"  # the user's processes: commands, hooks, what they start
ENGINE = "engine"  # podman and its helper processes
ENGINE_SERVICE = "engine service"
_OF_ENGINE = frozenset({"podman", "conmon", "runc", "crun", "netavark", "catatonit", "rootlessport"})
_SHARED = "aardvark-dns"  # serves all networks of the machine, no matter who started it


class Part(NamedTuple):
    """One process of a scene."""

    kind: str
    process: Process
    line: str  # its command line

    def __str__(self) -> str:
        return f"{self.kind} {self.process.pid} ({self.line[:120]})"


def of(folder: Path, token: str, commands: Collection[int]) -> list[Part]:
    """Every process of the scene in `folder`, in no particular order. `commands` are the pids of its commands."""
    mark = f"{MARK}={token}".encode()
    controllers = _controllers(folder)
    found = []
    for pid in _pids():
        if _belongs(pid, mark, str(folder)) and (process := processes.identify(pid)):
            kind, line = _kind(pid, controllers, commands)
            if kind:
                found.append(Part(kind, process, line))
    return found


def _belongs(pid: int, mark: bytes, folder: str) -> bool:
    if mark in _read(pid, "environ").split(b"\0"):
        return True
    try:
        where = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return where == folder or where.startswith(f"{folder}/")


def _kind(pid: int, controllers: Collection[int], commands: Collection[int]) -> tuple[str, str]:
    line = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    name = _read(pid, "comm").decode(errors="replace").strip()
    if name == _SHARED:
        return "", line
    if name in _OF_ENGINE:
        return (ENGINE_SERVICE if "system service" in line else ENGINE), line
    if pid in controllers:
        return CONTROLLER, line
    if pid in commands:
        return COMMAND, line
    if "/kedge/controller" in line:
        return KEEPER, line
    if "/kedge/runtime" in line and "spec.json" in line:
        return SUPERVISOR, line
    if "/kedge/runtime" in line and " --warm " in line:
        return WARM_PARENT, line
    return (COMMAND if " -m kedge" in line or "/kedge/" in line else TASK), line


def _controllers(folder: Path) -> set[int]:
    """The pids of the owners named in the locks of runs."""
    found = set()
    for path in folder.glob("state/kedge/jobs/*/lock"):
        with suppress(OSError, ValueError, TypeError, KeyError):
            if stat.S_ISREG(path.lstat().st_mode):
                found.add(int(json.loads(path.read_bytes())["pid"]))
    return found


def _pids() -> Iterator[int]:
    return map(int, filter(str.isdecimal, os.listdir("/proc")))


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
