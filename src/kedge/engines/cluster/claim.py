"""Which controller may write to a run: the one that started last.

After a requeue, the previous controller may still be alive on a node that the cluster has given up. Locks between nodes
may not work, or may be held by a node that is gone. So each controller first writes its id into a file. Before it
records a decision or a heartbeat, it checks whether the file still has its id. If it finds another id, it exits at
once and writes nothing more. Where there are file locks, it also takes the lock of the event log.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from kedge.errors import EXIT_FAILED, DiskFull
from kedge.runs import file_locks
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.liveness import RunHasEnded, has_end

_LOOK_SEC = 1.0  # between looks before events that decide nothing
_PROBE_SEC = 20.0
_LOCK_SEC = 180.0  # network file systems may show a new claim to other nodes late
_TAKEN, _KEPT = "has taken over", "still controls"


class Claim:
    """The claim of this process, in the allocation of this number: it is a LogGuard. A controller of an earlier
    allocation that is started again cannot make one; it exits. `patience_sec` is the time that the previous controller
    has to see the claim and to exit."""

    patience_sec = _LOCK_SEC

    def __init__(self, run: Run, allocation: int, controller: str) -> None:
        self._run, self._allocation, self._controller = run, allocation, controller
        self._due = 0.0
        found = self._read()
        if found and _number(found) > allocation:
            self._leave(found)
        self._write()

    def _write(self) -> None:
        here = {"host": os.uname().nodename, "pid": os.getpid()}
        claim = {"controller": self._controller, "allocation": self._allocation, **here}
        self._run.cluster.write(self._run.cluster.controller, claim)

    def open(self) -> tuple[EventLog, str]:
        """As LogGuard says. RunHasEnded: while this one was waiting, the controller before has recorded the end."""
        log, note = self._opened()
        if has_end(self._run):
            log.close()
            raise RunHasEnded(f"{self._run.id} has ended in an earlier allocation")
        return log, note

    def _opened(self) -> tuple[EventLog, str]:
        if why := file_locks.why_not(self._run.path, _PROBE_SEC):
            text = f"{self._run.path} is on a file system without file locks on this node ({why})"
            return EventLog(self._run.events, locked=False), f"{text}: {file_locks.ADVICE}"
        for _ in range(2):
            beat = self._heartbeat()
            try:
                return EventLog(self._run.events, self.patience_sec / 2), ""
            except file_locks.FileIsLocked as error:
                text = f"{error}; the job continues without the lock"
        if (now := self._heartbeat()) != beat:
            self._leave(now, _KEPT)
        return EventLog(self._run.events, locked=False), text

    def check(self, *, always: bool = True) -> None:
        """As LogGuard says."""
        now = time.monotonic()
        if not always and now < self._due:
            return
        self._due = now + _LOOK_SEC
        found = self._read()
        if not found or found["controller"] == self._controller:
            return
        if _number(found) >= self._allocation:
            self._leave(found)
        # One of an earlier allocation has looked before this claim was made, and has written its own after that.
        with suppress(OSError, DiskFull):
            self._write()

    def _read(self) -> dict[str, Any]:
        """The latest claim; empty if it cannot be read, which proves nothing."""
        found = self._run.cluster.object(self._run.cluster.controller)
        return found if isinstance(found.get("controller"), str) else {}

    def _heartbeat(self) -> dict[str, Any]:
        """The latest heartbeat of another controller."""
        return self._run.cluster.object(self._run.cluster.heartbeat)

    def _leave(self, other: dict[str, Any], what: str = _TAKEN) -> NoReturn:
        """End this process and nothing else: the job belongs to the other controller."""
        who = f"the controller with pid {other.get('pid')} on {other.get('host')}"
        print(f"kedge: {who} {what} the run {self._run.id}; this one exits", file=sys.stderr, flush=True)
        os._exit(EXIT_FAILED)


def _number(claim: dict[str, Any]) -> int:
    found = claim.get("allocation")
    return found if isinstance(found, int) else 0
