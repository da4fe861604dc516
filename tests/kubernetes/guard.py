"""Starts the programs of a cluster and ends everything that came from them, also if pytest is killed.

    guard.main() with the arguments FOLDER PID

It takes orders at the socket FOLDER/guard, one a connection, as a line of JSON: {"name", "argv", "environment"} starts
a program whose output goes to FOLDER/NAME.log, and the answer is its pid; {} ends the cluster and is answered when
nothing is left. So does the end of the process PID. FOLDER/slot has the number that makes the cluster's addresses its
own.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import socket
import sys
from pathlib import Path

from tests.slurm.guard import become_subreaper, kill_all, reap, started

from . import leftovers
from .addresses import SLOTS, Addresses


def main() -> None:
    """Start what is asked for until the cluster is to end."""
    folder, pid = Path(sys.argv[1]), int(sys.argv[2])
    become_subreaper()
    owner = os.pidfd_open(pid)
    slot, lock = _free_slot()
    leftovers.remove(Addresses(slot))  # those of a guard that was killed
    (folder / "slot").write_text(str(slot))
    last = None
    try:
        last = _serve(folder, owner)
    finally:
        kill_all()
        leftovers.remove(Addresses(slot))
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        if last:
            last.close()


def _free_slot() -> tuple[int, int]:
    for slot in range(SLOTS):
        lock = os.open(f"/tmp/kedge-test-kubernetes-{slot}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return slot, lock
    raise SystemExit("too many test clusters run on this machine")


def _serve(folder: Path, owner: int) -> socket.socket | None:
    """Take orders. Returns the connection of whoever waits for the end, if anybody does."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "guard"))
        server.listen(64)
        while True:
            reap()
            ready = select.select([server, owner], [], [], 0.1)[0]
            if owner in ready:
                return None
            if server in ready:
                connection = server.accept()[0]
                if not _obey(folder, connection):
                    return connection
                connection.close()


def _obey(folder: Path, connection: socket.socket) -> bool:
    """Whether there was an order other than to end."""
    with connection.makefile("rwb") as file:
        line = file.readline()
        if not line:  # its sender was killed
            return True
        order = json.loads(line)
        if not order:
            return False
        pid = started(order["argv"], order["environment"], str(folder / f"{order['name']}.log"))
        (folder / f"{order['name']}.pid").write_text(str(pid))
        file.write(b"%d\n" % pid)
    return True
