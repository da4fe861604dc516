"""Kills tasks whose agents do not react, from another process on their node."""

from __future__ import annotations

import os
import time

from kedge.light.contextlib import suppress
from kedge.light.types import Mapping, Sequence
from kedge.runtime.agent import node_folders, tree
from kedge.runtime.agent.keeper import say
from kedge.runtime.files import read_file
from kedge.runtime.process import procfs


def main(argv: Sequence[str]) -> int:
    """End the keepers that were started with these variables in their environment (NAME=VALUE[,VALUE...]; NAME alone:
    as this process), with all that is below them, and remove the folders of their agents. Returns 1 if some go on."""
    wanted = dict(map(_values, argv))
    end = time.monotonic() + tree.GIVE_UP_SEC
    while found := _matching(wanted):
        if time.monotonic() > end:
            say(f"some processes cannot be killed: {', '.join(map(str, found))}")
            return 1
        for pid, parent in found.items():
            if parent not in found:
                tree.kill_alone(pid)
        time.sleep(tree.RESCAN_SEC)
    node_folders.sweep_all()
    return 0


def _values(argument: str) -> tuple[str, list[str]]:
    name, equals, values = argument.partition("=")
    return name, values.split(",") if equals else [os.environ.get(name, "")]


def _matching(wanted: Mapping[str, list[str]]) -> dict[int, int]:
    """The processes with these variables, and the parent of each. Programs of the tasks have them as well."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError):  # it has ended, or belongs to another user
                if _has(wanted, read_file(f"/proc/{name}/environ")) and (process := procfs.process(name)):
                    found[process.pid] = process.parent
    return found


def _has(wanted: Mapping[str, list[str]], environment: bytes) -> bool:
    lines = {*environment.split(b"\0")}
    return all(any(f"{name}={value}".encode() in lines for value in values) for name, values in wanted.items())
