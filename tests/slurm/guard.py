"""Starts the programs of a cluster and ends everything that came from them, also if pytest is killed.

    guard.py FOLDER

It reads commands as JSON lines and answers each with a line: {"argv", "environment", "output"} starts a program, the
answer is its pid. At the end of its input it kills all that descends from it, however it was detached, and removes
FOLDER.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

_SET_CHILD_SUBREAPER = 36  # of prctl


def main(folder: str) -> None:
    """Start what is asked for until the input ends."""
    become_subreaper()
    os.set_inheritable(0, False)
    buffered = b""
    while True:
        reap()
        if not select.select([0], [], [], 0.1)[0]:
            continue
        data = os.read(0, 65536)
        if not data:
            break
        *lines, buffered = (buffered + data).split(b"\n")
        for line in lines:
            print(started(**json.loads(line)), flush=True)
    kill_all()
    shutil.rmtree(folder, ignore_errors=True)


def become_subreaper() -> None:
    """From now on, orphans among all descendants become children of this process."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def started(argv: list[str], environment: dict[str, str], output: str) -> int:
    """The pid of a new program, the leader of a session of its own."""
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *((os.POSIX_SPAWN_DUP2, out, fd) for fd in (1, 2))]
    try:
        return os.posix_spawnp(argv[0], argv, environment, file_actions=files, setsid=True)
    finally:
        os.close(out)


def reap() -> None:
    """Take the exit codes of all that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def kill_all() -> None:
    """Kill all that descends from this process."""
    while pids := _descendants():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
        reap()


def _descendants() -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            except OSError:  # it has ended
                continue
    found, new = set[int](), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        found |= new
    return sorted(found)


if __name__ == "__main__":
    main(sys.argv[1])
