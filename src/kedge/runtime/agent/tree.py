"""Kills the descendants of the keeper of an agent: supervisors with all that they have started. The keeper adopts
every orphan, so nothing leaves this tree."""

from __future__ import annotations

import os
import time

from kedge.light import signal
from kedge.light.contextlib import suppress
from kedge.light.types import Collection
from kedge.runtime.files import read_file
from kedge.runtime.process import procfs
from kedge.runtime.process.procfs import ProcessStat

GIVE_UP_SEC = 10.0  # a process that survives SIGKILL for longer hangs in the kernel
RESCAN_SEC = 0.05


def below(keeper: int, besides: Collection[int] = ()) -> list[ProcessStat]:
    """The processes below the keeper, without those with the pids `besides`."""
    if _children(keeper) <= {*besides}:
        return []  # without a look at every process of the node
    return [each for each in procfs.descendants(keeper) if each.pid not in besides]


def _children(pid: int) -> set[int]:
    """The pids of the children of a process with one thread; {0} if the kernel does not list them."""
    try:
        return {int(each) for each in read_file(f"/proc/{pid}/task/{pid}/children").split()}
    except OSError:
        return {0}


def kill(found: list[ProcessStat]) -> None:
    """Send SIGKILL to each. What they have forked meanwhile is found by the next look."""
    for each in found:
        with suppress(ProcessLookupError, PermissionError):  # it has ended, or belongs to another user now (setuid)
            os.kill(each.pid, signal.SIGKILL)


def kill_alone(supervisor: int) -> None:
    """Kill a supervisor and what is below it when its keeper is gone, so that orphans leave the tree: all of it is
    suspended first."""
    end = time.monotonic() + GIVE_UP_SEC
    stopped: dict[int, ProcessStat] = {}
    while time.monotonic() < end:
        root = procfs.process(supervisor)
        found = [*([root] if root else []), *procfs.descendants(supervisor)]
        new = [each for each in found if each.pid not in stopped]
        if not new:
            break
        for each in new:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGSTOP)
        stopped.update((each.pid, each) for each in new)
        time.sleep(RESCAN_SEC)  # one that is forking finishes that first
    kill(list(stopped.values()))
